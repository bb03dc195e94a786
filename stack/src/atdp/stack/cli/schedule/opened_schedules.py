"""Pieces that the verbs of `atdp schedule` share: arguments, and the schedules for the caller."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.callers import caller_of
from atdp.stack.cli.homes import existing_home

if TYPE_CHECKING:
    from atdp.stack.schedules.schedule_access import CallersSchedules

ScheduleArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The schedule, as the list shows it.")
]
ReasonOption = Annotated[str, typer.Option(help="Reason, which the history keeps.")]


@contextmanager
def schedules_of(key: str | None) -> "Iterator[CallersSchedules]":
    """Open the schedules of the home for the holder of a key (default: its operator).

    Raises:
        HomeUnusable: there is no home.
        KeyStoreError: the key is not valid.
        ScheduleDenied: the caller may not see schedules.
    """
    from atdp.stack.schedules.schedule_access import CallersSchedules
    from atdp.stack.schedules.schedule_desk import ScheduleDesk

    home = existing_home()
    caller = caller_of(home, key)
    with ScheduleDesk(home, actor=caller.actor) as desk:
        yield CallersSchedules(desk, caller, on_machine=True)


def time_of(text: str, option: str) -> datetime:
    """Return the time that an option names, which is in ISO 8601 with a zone.

    Raises:
        ScheduleError: it names none.
    """
    from atdp.stack.errors import ScheduleError

    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ScheduleError(
            "bad_time", f"{option}: {text!r} is not a time with a zone, e.g. 2026-11-22T03:00:00Z"
        )
    return moment
