"""Canonical JSON: one value, one sequence of bytes, so that a hash names a report.

Keys sorted, no spaces, UTF-8, floats rounded to 12 significant digits (summation order in BLAS may
differ in the last ones), and no infinity or NaN: what is not a number is null.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def to_json(value: object) -> Json:
    """Plain JSON value of dataclasses, mappings and sequences."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [to_json(v) for v in value]
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def rounded_canonical_json(value: object) -> bytes:
    """The bytes that are hashed and stored."""
    return json.dumps(
        to_json(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()


def sha256(value: object) -> str:
    """Hex SHA-256 of the canonical bytes; raw bytes are hashed as they are."""
    data = value if isinstance(value, bytes) else rounded_canonical_json(value)
    return hashlib.sha256(data).hexdigest()
