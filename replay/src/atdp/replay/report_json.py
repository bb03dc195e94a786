"""The canonical JSON of reports, with rounded numbers, so that a digest names a report.

It is the platform's canonical JSON (`atdp.schemas.canonical_json`) of a value whose floats are
rounded to 12 significant digits, because the order of summation in BLAS may change the last ones.
Infinity and NaN become null.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TypeAlias

from atdp.schemas import canonical_json

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def rounded_json(value: object) -> Json:
    """Return the plain JSON value of dataclasses, mappings and sequences, with rounded floats.

    Raises:
        TypeError: the value holds something that has no JSON form.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return rounded_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): rounded_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded_json(item) for item in value]
    return _rounded_scalar(value)


def _rounded_scalar(value: object) -> bool | int | float | str | None:
    """Return a scalar as a plain JSON scalar; members of enums become their values."""
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int():
            return int(value)
        case float():
            return float(f"{value:.12g}") if math.isfinite(value) else None
        case _:
            raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def rounded_canonical_json(value: object) -> bytes:
    """Return the bytes that are hashed and stored."""
    return canonical_json(rounded_json(value)).encode()


def canonical_report(report: object, **derived: object) -> bytes:
    """Return the canonical JSON of a report, a dataclass, with the derived values beside its own.

    Raises:
        TypeError: the report is not a dataclass or a mapping.
    """
    fields = rounded_json(report)
    if not isinstance(fields, dict):
        raise TypeError("a report is a JSON object")
    return rounded_canonical_json({**derived, **fields})


def rounded_sha256(value: object) -> str:
    """Return the hex SHA-256 of the rounded canonical JSON."""
    return hashlib.sha256(rounded_canonical_json(value)).hexdigest()
