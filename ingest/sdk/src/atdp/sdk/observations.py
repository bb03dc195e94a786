"""Observations from what agents hand over: whole contexts or additions, and tool definitions.

An observation is given as the whole context that the model was shown. Only the difference to the
context that the trajectory's events already add up to is sent (`atdp.schemas.context`), so that a
long history is sent once.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atdp.schemas import (
    Message,
    NotCanonical,
    Observation,
    TrajectoryBuilder,
    hash_of_tools,
    make_observation,
)
from atdp.sdk.json_text import json_text, json_value
from atdp.sdk.messages import MessageLike, as_messages


def observation_from(
    builder: TrajectoryBuilder[Message],
    messages: Iterable[MessageLike],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    whole: bool,
) -> Observation:
    """Return the observation of `messages` and `tools` against the context that `builder` holds.

    `messages` is all of the context when `whole`, else the additions to the context held.
    """
    given = as_messages(messages)
    earlier = builder.context.keys
    if whole:
        base = builder.context.common_prefix(given)
        context = given
    else:
        base = len(earlier)
        context = (*earlier, *given)
    tools_hash, tools_json = _tools_fields(builder, tools)
    return make_observation(
        context, base, held=len(earlier), tools_hash=tools_hash, tools_json=tools_json
    )


def _tools_fields(
    builder: TrajectoryBuilder[Message], tools: Sequence[Mapping[str, Any]] | None
) -> tuple[str | None, str | None]:
    if tools is None:
        return None, None
    text = json_text(list(tools))
    try:
        tools_hash = hash_of_tools(tools, default=json_value)
    except NotCanonical:
        tools_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return tools_hash, text if builder.tools.is_new(tools_hash) else None
