"""Observations from what agents hand over: whole contexts or additions, and tool definitions.

An observation is given as the whole context that the model was shown. Only the difference to the
context that the trajectory's events already add up to is sent (`atdp.schemas.context`), so that a
long history is sent once.
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
    hash_of_tools,
    make_observation,
)
from atdp.sdk.json_text import json_text
from atdp.sdk.messages import MessageLike, as_messages

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


def observation_from(
    builder: TrajectoryBuilder[Message], shown: ShownContext, event_id: str
) -> Observation:
    """Return the observation of what was shown, against the context that `builder` holds."""
    given = as_messages(shown.messages)
    held = builder.context
    earlier = held.keys
    if shown.is_whole:
        held.is_known = True
        context = given
        base = held.common_prefix(given)
        writes_base = base == 0 or base < len(earlier)
    else:
        context = (*earlier, *given)
        is_new_base = held.is_lost and held.is_known
        base = 0 if is_new_base else len(earlier)
        writes_base = is_new_base
    return make_observation(
        held,
        context,
        base,
        event_id=event_id,
        writes_base=writes_base,
        tools=_shown_tools(builder, shown.tools),
    )


def _shown_tools(builder: TrajectoryBuilder[Message], tools: Tools | None) -> ShownTools:
    if tools is None:
        return ShownTools()
    definitions = [tools] if isinstance(tools, Mapping | str) else list(tools)
    text = json_text(definitions)
    # Of what is sent: JSON may express less than the definitions hold.
    tools_hash = hash_of_tools(json.loads(text))
    is_new = builder.tools.is_new(tools_hash)
    return ShownTools(tools_hash=tools_hash, tools_json=text if is_new else None)
