"""The predicates of the contract's rules: pure functions over the values of fields.

They see values of a schema's types, or of any types at all: a predicate that raises counts as
broken. `None` means "not known" and breaks nothing by itself.
"""

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from atdp.schemas.canonical import json_levels
from atdp.schemas.control_characters import has_control_characters

MAX_ID_CHARACTERS = 512
"""Longer ids are refused: they are keys of the log and bounds of the lake's files."""
MAX_JSON_LEVELS = 200
"""Objects and arrays nested deeper are refused: governance walks no deeper."""
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Earlier times are refused: they come from clocks that were never set."""
CLOCK_TOLERANCE = timedelta(days=1)
"""Time that an event may lie in the future, since clocks of producers are not exact."""

UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
CURRENCY_CODE = re.compile(r"[A-Z]{3}")


def is_id(text: str) -> bool:
    """Return whether a text can be an id: not empty, not too long, without control characters."""
    return 0 < len(text) <= MAX_ID_CHARACTERS and not has_control_characters(text)


def are_ids(*texts: str | None) -> bool:
    """Return whether every text that is given can be an id."""
    for text in texts:  # noqa: SIM110 - runs for every event; all() takes twice as long
        if text is not None and not is_id(text):
            return False
    return True


def are_required_ids(*texts: str) -> bool:
    """Return whether every text is given and can be an id."""
    for text in texts:  # noqa: SIM110 - runs for every event; all() takes twice as long
        if not is_id(text):
            return False
    return True


def are_names(*texts: str | None) -> bool:
    """Return whether every text that is given can be a name: it has no control characters."""
    for text in texts:  # noqa: SIM110 - runs for every event; all() takes twice as long
        if text is not None and has_control_characters(text):
            return False
    return True


def not_negative(*numbers: float | None) -> bool:
    """Return whether no number is below 0."""
    for number in numbers:  # noqa: SIM110 - runs for every event; all() takes twice as long
        if number is not None and number < 0:
            return False
    return True


def all_finite(*numbers: float | None) -> bool:
    """Return whether no number is NaN or infinite."""
    return all(number is None or math.isfinite(number) for number in numbers)


def within(*times_and_latest: datetime | None) -> bool:
    """Return whether all times lie between `EARLIEST` and the last argument, both inclusive."""
    latest = times_and_latest[-1]
    if latest is None:
        return False
    for time in times_and_latest[:-1]:
        if time is not None and not EARLIEST <= time <= latest:
            return False
    return True


def nanos_beside_times(*times_and_nanos: Any) -> bool:
    """Return whether nanoseconds, given after their times, are 0 to 999 and have a time."""
    pairs = zip(times_and_nanos[::2], times_and_nanos[1::2], strict=True)
    return all(nanos is None or (time is not None and 0 <= nanos <= 999) for time, nanos in pairs)


def ends_after_start(
    start: datetime | None, start_ns: int | None, end: datetime | None, end_ns: int | None
) -> bool:
    """Return whether the end is not before the start, where both are known."""
    if start is None or end is None:
        return True
    return (start, start_ns or 0) <= (end, end_ns or 0)


ACTION_BODIES = (
    "message",  # the first, see `has_named_body`
    "generation",
    "tool_call",
    "memory_op",
    "code_edit",
    "handoff",
    "approval",
    "retrieval",
    "embedding",
    "guardrail",
    "plan",
)


def has_named_body(type_: str, *bodies: object) -> bool:
    """Return whether an action has the body that its type names and no other."""
    if type_ not in ACTION_BODIES or bodies[ACTION_BODIES.index(type_)] is None:
        return False
    others = len(bodies) - bodies.count(None) - 1
    return others == 0 or (others == 1 and type_ == "generation" and bodies[0] is not None)


def target_is_named(kind: str, event_id: str | None, step: int | None) -> bool:
    """Return whether a late signal names what its kind of target needs, and no more."""
    match kind:
        case "event":
            return event_id is not None and (step is None or step >= 0)
        case "step":
            return event_id is None and step is not None and step >= 0
        case "trajectory":
            return event_id is None and step is None
        case _:
            return False


def same_length(*arrays: Sequence[object] | None) -> bool:
    """Return whether the arrays that are given have the length of the first, which is needed."""
    tokens, *others = arrays
    return all(
        array is None or (tokens is not None and len(array) == len(tokens)) for array in others
    )


def zeros_and_ones(mask: Sequence[int] | None) -> bool:
    """Return whether a mask consists of 0 and 1."""
    return mask is None or set(mask) <= {0, 1}


def spans_in_order(starts: list[int], ends: list[int], tokens: Sequence[int] | None) -> bool:
    """Return whether spans follow each other and lie within the tokens."""
    at = 0
    for start, end in zip(starts, ends, strict=True):
        if not at <= start < end:
            return False
        at = end
    return tokens is None or at <= len(tokens)


def splices_in_order(starts: list[int], ends: list[int], tokens: list[int]) -> bool:
    """Return whether replaced tokens follow each other."""
    return spans_in_order(starts, ends, None) and all(count >= 0 for count in tokens)


def prefix_is_whole(event_id: str | None, tokens: int | None) -> bool:
    """Return whether a prefix names both its generation and its length, or neither."""
    if event_id is None or tokens is None:
        return event_id is None and tokens is None
    return is_id(event_id) and tokens > 0


def experts_of_whole_tokens(layers: int, per_token: int, start: int, ids: Sequence[int]) -> bool:
    """Return whether the ids of experts belong to a whole number of tokens."""
    return layers > 0 and per_token > 0 and start >= 0 and len(ids) % (layers * per_token) == 0


def token_span_of_event(start: int | None, end: int | None, target_kind: str) -> bool:
    """Return whether a span of tokens is complete, not empty, and that of an event."""
    if start is None or end is None:
        return start is None and end is None
    return target_kind == "event" and 0 <= start < end


def in_order(low: float | None, high: float | None) -> bool:
    """Return whether the lower bound is not above the upper one."""
    return low is None or high is None or low <= high


def _no_constant(_name: str) -> None:
    raise ValueError("NaN and infinities are no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def are_json(*texts: str | None) -> bool:
    """Return whether every text is JSON that every later stage can read; may raise otherwise."""
    for text in texts:
        if text is not None and not _is_readable(text, _DECODER.decode(text)):
            return False
    return True


def are_json_objects(*texts: str | None) -> bool:
    """Return whether every text is such JSON, and an object; may raise otherwise."""
    for text in texts:
        if text is not None:
            value = _DECODER.decode(text)
            if not isinstance(value, dict) or not _is_readable(text, value):
                return False
    return True


def _is_readable(text: str, value: object) -> bool:
    """Return whether a JSON value is not too deep and has no half of a surrogate pair.

    Few texts can have either; the others are not looked at again.
    """
    if text.count("[") + text.count("{") > MAX_JSON_LEVELS and json_levels(value) > MAX_JSON_LEVELS:
        return False
    if _SURROGATE_ESCAPE.search(text) is not None:
        json.dumps(value, ensure_ascii=False).encode()  # raises for half of a pair
    return True
