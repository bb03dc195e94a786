"""A report as a value again, from its canonical JSON.

The canonical form rounds numbers and has null for infinity and NaN, so the value is made from it
only where it gives the same bytes again.
"""

import json
import math
from typing import Any

from pydantic import TypeAdapter, ValidationError

from atdp.replay.errors import RepeatError
from atdp.replay.report import ReplayReport

_NOT_FINITE = {"estimate": math.nan, "lower": -math.inf, "upper": math.inf}
"""Numbers of an interval for which the canonical form has null."""


def report_from_json(canonical: bytes) -> ReplayReport:
    """Return the report with these canonical bytes.

    Raises:
        RepeatError: they are damaged, or of another version of atdp.
    """
    try:
        fields = json.loads(canonical)
        report = TypeAdapter(ReplayReport).validate_python(_with_bounds(fields))
    except (ValueError, ValidationError) as error:
        raise RepeatError(
            "a stored report cannot be read by this version of atdp; "
            "restore it from a backup, or read it with the version that wrote it"
        ) from error
    if report.canonical() != canonical:
        raise RepeatError("a stored report is not the one that was written; evaluate again")
    return report


def _with_bounds(value: Any) -> Any:
    """Return JSON whose intervals have numbers where the canonical form has null."""
    match value:
        case dict() if value.keys() == _NOT_FINITE.keys():
            return {name: _NOT_FINITE[name] if v is None else v for name, v in value.items()}
        case dict():
            return {name: _with_bounds(item) for name, item in value.items()}
        case list():
            return [_with_bounds(item) for item in value]
        case _:
            return value
