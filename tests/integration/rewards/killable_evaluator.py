"""A worker of evaluators in a process of its own, which kills itself at a given point.

Reads one JSON command per line on stdin and does each in a fresh child process (forked after the
slow imports); answers with one line: the child's exit (negative: the signal that killed it).

`[HOME, POINT, GUARD]`: take the end of trajectory `t-0`, do all that is due, commit, and exit.
POINT is `none`, `answer` (the judge has answered, nothing is written), `journal` (the answer is
written, nothing is sent) or `emission` (the verdict is sent, and neither noted nor committed).
GUARD `off`: an answer is not kept over a restart.
"""

import json
import os
import signal
import sys
from pathlib import Path

from atdp.rewards.evaluators.evaluation_run import EvaluationRun
from atdp.rewards.evaluators.journal import EvaluationJournal
from atdp.rewards.evaluators.spending import Spending
from atdp.rewards.evaluators.worker_locks import WorkerLock

sys.path.insert(0, str(Path(__file__).parent))

from evaluator_rig import EvaluatorRig, end  # type: ignore[import-not-found] # beside this file


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(*json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def work(home: str, point: str, guard: str) -> None:
    folder = Path(home)
    committed = folder / "committed"
    with WorkerLock(folder / "run") as lock:
        rig = EvaluatorRig(folder, owner=lock.name)
        rig.journal.release_claims(lock.is_alive)
        if point == "answer":
            answer = EvaluationJournal.answer
            EvaluationJournal.answer = lambda *args, **more: kill() or answer(*args, **more)  # type: ignore[method-assign,func-returns-value]
        if point == "journal":
            rig.producer.before = kill
        if point == "emission":
            rig.producer.after = kill
        if guard == "off":
            forget_answers()
        if not committed.exists():
            rig.scheduler.take([end("t-0")])
            rig.settle()
            if rig.scheduler.offsets_to_commit({0: 1}) == {0: 1}:
                committed.write_text("1")
        rig.close()


def forget_answers() -> None:
    """Keep no answer over a restart, as a worker without a journal would."""
    start = EvaluationRun.__init__

    def forgetting(run: EvaluationRun, *args: object, **more: object) -> None:
        start(run, *args, **more)  # type: ignore[arg-type]
        spending: Spending = args[1]  # type: ignore[assignment]
        spending._db.execute(
            "UPDATE evaluations SET state = 'pending', answer = NULL, due_at = 0 "
            "WHERE state IN ('claimed', 'answered')"
        )

    EvaluationRun.__init__ = forgetting  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    main()
