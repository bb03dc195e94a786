"""Times of other formats as microseconds plus the nanoseconds beyond them, without a float."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

Instant: TypeAlias = tuple[datetime | None, int | None]
"""A time and its nanoseconds beyond the microsecond; None where unknown or not given."""

UNKNOWN: Final[Instant] = (None, None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(2000, 2100)
"""Times outside, such as the years 1 and 9999, are placeholders; the contract refuses them."""
_ISO = re.compile(
    r"(?P<seconds>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?"
)
_DECIMAL = re.compile("[0-9]{1,20}")
_MICRO_DIGITS = 6


def instant_of_iso(value: object) -> Instant:
    """Return the time of an ISO 8601 text with at most nine digits of a second.

    A time without zone is taken as UTC. Anything else is an unknown time.
    """
    match = _ISO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return UNKNOWN
    fraction = match["fraction"] or ""
    micros, nanos = fraction[:_MICRO_DIGITS].ljust(_MICRO_DIGITS, "0"), fraction[_MICRO_DIGITS:]
    try:
        at = datetime.fromisoformat(f"{match['seconds']}.{micros}{match['zone'] or 'Z'}")
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        return UNKNOWN
    if at.year not in _YEARS:
        return UNKNOWN
    return at, int(nanos.ljust(3, "0")) if nanos else None


def iso_text(at: datetime, nanos: int | None) -> str:
    """Return the time as ISO 8601 in UTC with the digits that are known to be used."""
    fraction = f".{at.microsecond:06d}" if at.microsecond or nanos is not None else ""
    if nanos is not None:
        fraction += f"{nanos:03d}"
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def instant_of_nanos(value: object) -> Instant:
    """Return the time of nanoseconds since 1970, given as an integer or as its decimal text."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return UNKNOWN
    micros, nanos = divmod(value, 1000)
    try:
        at = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return UNKNOWN
    return (at, nanos) if at.year in _YEARS else UNKNOWN


def nanos_text(at: datetime, nanos: int | None) -> str:
    """Return the nanoseconds since 1970 as decimal text, as OTLP's JSON has them."""
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return str(micros * 1000 + (nanos or 0))
