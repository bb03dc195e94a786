"""Observations from what agents hand over: whole contexts or additions, and tool definitions.

An observation is given as the whole context that the model was shown. Only the difference to the
context that the trajectory's events already add up to is sent (`atdp.schemas.context`), so that a
long history is sent once.

It is read once too: a message that is exactly the one that stood in its place before
(`atdp.schemas.exact_forms`), and is held, is not read again. The same holds for tool definitions.
This takes as much memory as the text of the messages held.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from atdp.schemas import (
    Message,
    Observation,
    ShownTools,
    TrajectoryBuilder,
    exact_form,
    has_form,
    hash_of_tools,
    make_observation,
)
from atdp.sdk.json_text import json_text
from atdp.sdk.messages import MessageLike, as_message, as_messages

Tools: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""Tool definitions; a mapping is a single one."""


@dataclass(frozen=True, slots=True)
class ShownContext:
    """The messages and tools that an agent hands over for one model call."""

    messages: Iterable[MessageLike]
    tools: Tools | None = None
    """The definitions in force; None: nothing is said about them."""
    is_whole: bool = True
    """True when `messages` is all of the context, not only the additions to the context held."""


@dataclass(frozen=True, slots=True)
class _ReadMessage:
    """A message held, and what it was read from."""

    held: Message
    source: Message | bytes | None
    """The message itself, or the exact form of a chat dict; None: it has no such form."""

    def is_unchanged(self, given: MessageLike, held: Message) -> bool:
        """Return whether `given` is what `held` was read from."""
        if held is not self.held or self.source is None:
            return False
        if isinstance(self.source, bytes):
            return has_form(given, self.source)
        return given is self.source


class ContextReader:
    """Makes the observations of one trajectory; used in the turn of an event."""

    def __init__(self, builder: TrajectoryBuilder[Message]) -> None:
        """Compare with the context and the tools that `builder` holds."""
        self._builder = builder
        self._read: list[_ReadMessage] = []
        """The messages at the start of the context held, with their sources."""
        self._tools_form: bytes | None = None
        self._tools_hash = ""

    def observation(self, shown: ShownContext, event_id: str) -> Observation:
        """Return the observation of what was shown, against the context held."""
        given = list(shown.messages)
        held = self._builder.context
        length = len(held.keys)
        if shown.is_whole:
            base, new = (0, as_messages(given)) if held.is_lost else self._read_whole(given)
            held.is_known = True
            writes_base = base == 0 or base < length
        else:
            base, new = length, as_messages(given)
            writes_base = held.is_lost and held.is_known
            if writes_base:
                base, new = 0, (*held.keys, *new)
        return make_observation(
            held,
            base,
            new,
            event_id=event_id,
            writes_base=writes_base,
            tools=self._shown_tools(shown.tools),
        )

    def _read_whole(self, given: Sequence[MessageLike]) -> tuple[int, tuple[Message, ...]]:
        """Return how many messages at the start are held already, and the others."""
        read = self._read
        base = 0
        for message, held in zip(given, self._builder.context.keys, strict=False):
            is_known = base < len(read)
            if not (is_known and read[base].is_unchanged(message, held)):
                source = _source(message)
                if as_message(message) != held:
                    break
                read[base : base + 1] = [_ReadMessage(held, source)]
            base += 1
        sources = [_source(message) for message in given[base:]]
        new = as_messages(given[base:])
        read[base:] = map(_ReadMessage, new, sources)
        return base, new

    def _shown_tools(self, tools: Tools | None) -> ShownTools:
        if tools is None:
            return ShownTools()
        definitions = [tools] if isinstance(tools, Mapping | str) else list(tools)
        text = None
        if self._tools_form is None or not has_form(definitions, self._tools_form):
            form = exact_form(definitions)
            text = json_text(definitions)
            # Of what is sent: JSON may express less than the definitions hold.
            self._tools_hash = hash_of_tools(json.loads(text))
            self._tools_form = form
        if not self._builder.tools.is_new(self._tools_hash):
            return ShownTools(tools_hash=self._tools_hash)
        return ShownTools(tools_hash=self._tools_hash, tools_json=text or json_text(definitions))


def _source(message: MessageLike) -> Message | bytes | None:
    """Return what a message is known by; taken before it is read, as it may change meanwhile."""
    return message if isinstance(message, Message) else exact_form(message)
