"""Text for what agents pass around: JSON where possible, and always something.

Recording must never be the reason that an agent fails, so nothing here raises: what JSON cannot say
is said by `repr`, and what has no `repr` by its type.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

MAX_TEXT_CHARS = (
    1_000_000  # longer results are cut: a record has to fit into the broker's message limit
)


def json_text(value: object) -> str:
    """`value` as JSON; parts that JSON cannot say become their `repr`."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_repr(value), ensure_ascii=False)


def content_text(value: object) -> str:
    """`value` as a message's text: strings as they are, everything else as JSON; cut at `MAX_TEXT_CHARS`."""
    text = value if isinstance(value, str) else json_text(value)
    return (
        text
        if len(text) <= MAX_TEXT_CHARS
        else text[:MAX_TEXT_CHARS] + f"… [{len(text) - MAX_TEXT_CHARS} more characters]"
    )


def canonical_json(value: object) -> str:
    """Sorted keys, no spaces: equal values give equal text; what JSON cannot say becomes its `repr`."""
    try:
        return json.dumps(
            value, ensure_ascii=False, default=_plain, sort_keys=True, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError):
        return json_text(value)


def parsed_json(text: str) -> str | None:
    """Canonical JSON of JSON text; None when it does not parse."""
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    dump = getattr(
        value, "model_dump", None
    )  # pydantic models, which the openai client's answers are
    return dump(mode="json") if callable(dump) else _repr(value)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a host object's repr may do anything
        return f"<{type(value).__name__}: repr failed with {type(error).__name__}>"
