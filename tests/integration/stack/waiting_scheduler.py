"""The scheduler process with parts that write a journal, and that wait in one part.

The rest is the real process. `ATDP_TEST_WAITS_IN` names the part that lasts until there is a file
`go` in the folder `ATDP_TEST_FOLDER`. With `ATDP_TEST_UNGUARDED=lock` the process does not ask
whether it still has the lock.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from atdp.runtime import Home
from atdp.stack.schedules import part_process, scheduler_process
from atdp.stack.schedules.run_facts import Facts, PartName
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.scheduler_lock import SchedulerLock

FOUND: dict[str, Facts] = {
    "resolve": {"candidate": "v2", "baseline": "v1"},
    "pin": {"dataset": "d"},
    "evaluate": {"verdict": "PASS", "reasons": ["shown"], "text": "shown", "evaluation": "e"},
}


class WaitingParts:
    """Parts without a stack. A line of the journal is a part that begins or ends."""

    def __init__(self, home: Home, _now: Callable[[], datetime]) -> None:
        self.home, self.folder = home, Path(os.environ["ATDP_TEST_FOLDER"])

    def make(self, part: PartName, order: RunOrder, facts: Facts) -> Facts:
        self.note(part, order, "begins")
        waits = part == os.environ.get("ATDP_TEST_WAITS_IN")
        while waits and not (self.folder / "go").exists():
            time.sleep(0.02)
        self.note(part, order, "ends")
        return FOUND.get(part, {})

    def note(self, part: PartName, order: RunOrder, what: str) -> None:
        line = {"by": os.getpid(), "run": order.run_id, "part": part, "what": what}
        with (self.folder / "journal").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def close(self, order: RunOrder) -> None:
        pass


if __name__ == "__main__":
    part_process.ProcessParts = WaitingParts  # type: ignore[assignment,misc]
    if os.environ.get("ATDP_TEST_UNGUARDED") == "lock":
        SchedulerLock.check = lambda _: None  # type: ignore[method-assign, assignment]
    sys.exit(scheduler_process.main())
