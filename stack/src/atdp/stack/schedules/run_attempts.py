"""Attempts at one part of a run: what may be repeated, how long, and what is said in the end.

The result is always a value and never an exception, so that a run that goes on after a kill takes
the same way as one that was not killed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from atdp.control import ControlError
from atdp.lakehouse import LakehouseError
from atdp.replay import ReplayError, Verdict
from atdp.runtime import PlatformError
from atdp.stack.errors import StackError
from atdp.stack.schedules.run_facts import Facts, failure

_log = logging.getLogger("atdp.schedules")

_KNOWN_ERRORS = (StackError, ControlError, LakehouseError, PlatformError, ReplayError, OSError)
_LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The limits of the attempts at a part. Pauses between them double, from 1 s."""

    most: int
    deadline: datetime | None
    """No further attempt begins after this; None: the number alone limits them."""
    now: Callable[[], datetime]
    pause: Callable[[float], object]
    """Waits for so many seconds."""

    def make(self, run: str, part: str, call: Callable[[], Facts]) -> Facts:
        """Return the facts of the first attempt without an error, else those of the last one."""
        result = failure("deadline_passed", f"The deadline passed before the part {part!r} began.")
        for attempt in range(1, self.most + 1):
            if self.deadline is not None and self.now() > self.deadline:
                return result
            result = attempt_part(run, part, call)
            if result.get("verdict") != Verdict.ERROR or attempt == self.most:
                break
            _log.warning("attempt failed", extra={"run": run, "part": part, "attempt": attempt})
            self.pause(min(2.0 ** (attempt - 1), _LONGEST_PAUSE_S))
        return result


def attempt_part(run: str, part: str, call: Callable[[], Facts]) -> Facts:
    """Return the facts of one attempt; an error is facts too."""
    try:
        return call()
    except _KNOWN_ERRORS as error:
        return failure(getattr(error, "code", f"{part}_failed"), str(error))
    except Exception as error:  # noqa: BLE001 (the scheduler survives; only the type is kept)
        _log.exception("a part of a run failed", extra={"run": run, "part": part})
        return failure("internal_error", f"The part {part!r} ended with {type(error).__name__}.")
