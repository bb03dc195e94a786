"""JSON text for the values that agents pass around.

Recording must never be the reason that an agent fails, so nothing here raises. A value that JSON
cannot express is written as its `repr`; one whose `repr` fails, as its type.
"""

import contextlib
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

MAX_TEXT_CHARS = 1_000_000
"""Longer results are cut, because a record has to fit into the broker's message limit."""


def json_text(value: object) -> str:
    """Return `value` as JSON; parts that JSON cannot express become their `repr`.

    Such parts are NaN, infinities and keys that are no text, too.
    """
    for form in (lambda: value, lambda: _expressible(value), lambda: _repr(value)):
        # Each form takes more values than the one before, and more time.
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return json.dumps(form(), ensure_ascii=False, allow_nan=False, default=json_value)
    return '""'


def content_text(value: object) -> str:
    """Return `value` as a message's text.

    Text stays as it is, everything else becomes JSON. The result is cut at `MAX_TEXT_CHARS`.
    """
    text = value if isinstance(value, str) else json_text(value)
    excess = len(text) - MAX_TEXT_CHARS
    return text if excess <= 0 else f"{text[:MAX_TEXT_CHARS]}… [{excess} more characters]"


def json_value(value: Any) -> Any:
    """Return a JSON value for an object that JSON cannot express, for `json.dumps(default=)`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    # Pydantic models have it; the answers of the openai client are such models.
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else _repr(value)


def _expressible(value: Any) -> Any:
    match value:
        case Mapping():
            return {
                key if isinstance(key, str | int | None) else _repr(key): _expressible(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_expressible(item) for item in value]
        case float() if not math.isfinite(value):
            return _repr(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return _expressible(json_value(value))


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a host object's repr may do anything
        return f"<{type(value).__name__}: repr failed with {type(error).__name__}>"
