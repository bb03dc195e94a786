"""Canonical JSON: equal values give equal text, so that a hash names a value.

Object keys are sorted, there are no spaces, text is UTF-8. NaN and infinities are refused, since
JSON has no form for them.
"""

import hashlib
import json

from atdp.schemas.errors import SchemaError

MAX_LEVELS = 200
"""Containers nested deeper are refused: governance walks no deeper (orjson would take 254)."""

_NO_FORM = "the value has no canonical JSON form"


class NotCanonical(SchemaError):
    """A value has no canonical JSON form; the message names the reason and quotes no content."""


def canonical_json(value: object, *, outside: int = 0) -> str:
    """Return the canonical JSON text of `value`, which stands inside of `outside` containers.

    Raises:
        NotCanonical: the value holds something that JSON cannot express, or is nested deeper than
            `MAX_LEVELS`, the containers outside included.
    """
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCanonical(f"{_NO_FORM}: {type(error).__name__}") from None
    # Counting brackets is cheap, and few values hold enough of them to need the exact count.
    if (
        text.count("[") + text.count("{") > MAX_LEVELS - outside
        and json_levels(json.loads(text)) > MAX_LEVELS - outside
    ):
        raise NotCanonical(f"{_NO_FORM}: at most {MAX_LEVELS} levels are taken")
    return text


def canonical_sha256(value: object) -> str:
    """Return the hex SHA-256 of the canonical JSON of `value`.

    Raises:
        NotCanonical: see `canonical_json`.
    """
    text = canonical_json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def json_levels(value: object) -> int:
    """Return the depth to which the containers of a JSON value are nested."""
    levels = 0
    inside = [value]
    while containers := [each for each in inside if isinstance(each, dict | list)]:
        levels += 1
        inside = []
        for each in containers:
            inside.extend(each.values() if isinstance(each, dict) else each)
    return levels
