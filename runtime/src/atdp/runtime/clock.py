"""The clock of a running service. Code below the entry point takes the time as an argument."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time as an aware UTC time."""
    return datetime.now(UTC)
