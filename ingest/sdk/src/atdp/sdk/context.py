"""The context that a trajectory holds, so that a long history is sent once.

An observation is given as the whole context that the model was shown; what goes on the wire is the
difference to what the trajectory's events already add up to (`atdp.schemas.context`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atdp.schemas import Body, Message, Observation, context_hash, contributed_messages, delta
from atdp.sdk.json_text import json_text
from atdp.sdk.messages import MessageLike, as_messages


class HeldContext:
    """Messages held so far, and the tool definitions already sent."""

    def __init__(self) -> None:
        """Empty."""
        self._messages: list[Message] = []
        self._tools_sent: set[str] = set()

    def observation(
        self,
        messages: Iterable[MessageLike],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        whole: bool,
    ) -> Observation:
        """What is new in `messages` (all of the context when `whole`, else additions to it) and in `tools`."""
        given = as_messages(messages)
        held = len(self._messages)
        base, new = delta(self._messages, given) if whole else (held, given)
        tools_json = None if tools is None else json_text(list(tools))
        tools_hash = None if tools_json is None else hashlib.sha256(tools_json.encode()).hexdigest()
        first_time = tools_hash is not None and tools_hash not in self._tools_sent
        if tools_hash is not None:
            self._tools_sent.add(tools_hash)
        return Observation(
            messages=new,
            context_base=None if base == held else base,
            context_hash=context_hash((*self._messages[:base], *new)),
            tools_hash=tools_hash,
            tools_json=tools_json if first_time else None,
        )

    def add(self, body: Body) -> None:
        """Fold a recorded body in."""
        if isinstance(body, Observation) and body.context_base is not None:
            del self._messages[body.context_base :]
        self._messages.extend(contributed_messages(body))
