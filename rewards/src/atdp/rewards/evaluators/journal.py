"""The journal of evaluations: what is to be evaluated, by whom, and what was answered.

One sqlite file for all workers of a home; every change is on the disk when a method returns.

Guarantees: an evaluation has one row, whose key is the id of its verdict's event. One worker holds
it at a time (a claim with a time limit). Only the holder of the claim can write the answer, and
only once, so an evaluation has one answer however many workers tried. What is emitted is read from
here. The words of an answer are removed once Kafka has acknowledged it.

States: `pending` → `claimed` → `answered` → `emitted`; or `parked` (tried again at `due_at`), or
`skipped` (nothing will be emitted; `reason` says why).
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory
from atdp.rewards.evaluators.sqlite_file import SqliteFile
from atdp.runtime import Home

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ends (
    tenant TEXT NOT NULL, trajectory TEXT NOT NULL, attempt INTEGER NOT NULL,
    end_event_id TEXT NOT NULL, ended_at TEXT NOT NULL, status TEXT NOT NULL, agent TEXT NOT NULL,
    session TEXT, task TEXT, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    expanded INTEGER NOT NULL DEFAULT 0,     -- 1: its evaluations are listed
    PRIMARY KEY (tenant, trajectory, attempt, end_event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unexpanded_ends ON ends (tenant) WHERE expanded = 0;
CREATE TABLE IF NOT EXISTS evaluations (
    event_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL, trajectory TEXT NOT NULL, attempt INTEGER NOT NULL,
    end_event_id TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    evaluator TEXT NOT NULL, identity TEXT NOT NULL, state TEXT NOT NULL,
    due_at REAL NOT NULL DEFAULT 0,          -- seconds since the epoch
    failures INTEGER NOT NULL DEFAULT 0,     -- times parked because of a failure
    parked INTEGER NOT NULL DEFAULT 0,       -- times parked for any reason
    code TEXT, reason TEXT,                  -- of the last failure, or of the skipping
    owner TEXT, answer TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS open_evaluations ON evaluations (tenant, evaluator, due_at)
    WHERE state IN ('pending', 'claimed', 'parked');
CREATE INDEX IF NOT EXISTS unsettled ON evaluations (partition, "offset")
    WHERE state IN ('pending', 'claimed', 'answered') AND parked = 0;
"""
_END_COLUMNS = (
    "tenant, trajectory, attempt, end_event_id, ended_at, status, agent, session, task, "
    'partition, "offset"'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedEvaluation:
    """One evaluator and one end of a trajectory."""

    event_id: str
    evaluator: str
    identity: str
    failures: int
    end: EndedTrajectory
    answer: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimTerms:
    """The terms of a claim: the worker, its partitions, the number and the time."""

    owner: str
    now: float
    until: float
    """Seconds since the epoch, like `now`; then others may take them over."""
    partitions: Sequence[int]
    most: int


def journal_file(home: Home) -> Path:
    """Return the file of the journal of a home."""
    return home.root / "evaluators.sqlite"


class EvaluationJournal(SqliteFile):
    """The journal in one file; safe to use from several threads and processes."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, _SCHEMA)

    def add_ends(self, ends: Iterable[EndedTrajectory]) -> None:
        """Take ends; one that is there is not changed."""
        rows = [{**asdict(end), "ended_at": end.ended_at.isoformat()} for end in ends]
        if not rows:
            return
        names = ", ".join(f":{name.strip(chr(34))}" for name in _END_COLUMNS.split(", "))
        with self._writing() as db:
            db.executemany(
                f"INSERT OR IGNORE INTO ends ({_END_COLUMNS}) VALUES ({names})",  # noqa: S608 - names of columns
                rows,
            )

    def unexpanded_ends(self, tenant: str, most: int) -> list[EndedTrajectory]:
        """Return ends of a tenant whose evaluations are not listed yet."""
        query = (
            f"SELECT {_END_COLUMNS} FROM ends "  # noqa: S608 - names of columns
            "WHERE tenant = ? AND expanded = 0 LIMIT ?"
        )
        return [_end(row) for row in self._rows(query, (tenant, most))]

    def list_evaluations(self, end: EndedTrajectory, wanted: Mapping[str, tuple[str, str]]) -> None:
        """List the evaluations of an end: event id → name and identity of the evaluator.

        One that is listed stays as it is, unless another version had replaced it.
        """
        with self._writing() as db:
            for event_id, (evaluator, identity) in wanted.items():
                db.execute(
                    "INSERT INTO evaluations (event_id, tenant, trajectory, attempt, "
                    'end_event_id, partition, "offset", evaluator, identity, state) '
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending') ON CONFLICT DO UPDATE "
                    "SET state = 'pending', due_at = 0 "
                    "WHERE state = 'skipped' AND code = 'replaced'",
                    (
                        event_id,
                        end.tenant,
                        end.trajectory,
                        end.attempt,
                        end.end_event_id,
                        end.partition,
                        end.offset,
                        evaluator,
                        identity,
                    ),
                )
            db.execute(
                "UPDATE ends SET expanded = 1 WHERE tenant = ? AND trajectory = ? "
                "AND attempt = ? AND end_event_id = ?",
                (end.tenant, end.trajectory, end.attempt, end.end_event_id),
            )

    def claim(self, tenant: str, evaluator: str, terms: ClaimTerms) -> list[QueuedEvaluation]:
        """Take evaluations that are due, for one worker alone.

        A claim whose time is over is taken over.
        """
        marks = ", ".join("?" * len(terms.partitions))
        with self._writing() as db:
            ids = [
                row["event_id"]
                for row in db.execute(
                    "SELECT event_id FROM evaluations "  # noqa: S608 - only marks are added
                    "WHERE tenant = ? AND evaluator = ? "
                    "AND state IN ('pending', 'claimed', 'parked') AND due_at <= ? "
                    f"AND partition IN ({marks}) ORDER BY due_at LIMIT ?",
                    (tenant, evaluator, terms.now, *terms.partitions, terms.most),
                )
            ]
            for event_id in ids:
                db.execute(
                    "UPDATE evaluations SET state = 'claimed', owner = ?, due_at = ? "
                    "WHERE event_id = ?",
                    (terms.owner, terms.until, event_id),
                )
        return [
            found for event_id in ids for found in self._evaluations("e.event_id = ?", event_id)
        ]

    def answer(self, event_id: str, *, owner: str, answer: str) -> bool:
        """Write the answer; False when the claim is no longer `owner`'s, and nothing is written."""
        return self._leave_claim(event_id, owner, state="answered", answer=answer)

    def park(self, event_id: str, *, owner: str, due_at: float, code: str, reason: str) -> bool:
        """Leave an evaluation to a later time; `budget` and `removed` are no failures."""
        failures = 0 if code in ("budget", "removed") else 1
        with self._writing() as db:
            done = db.execute(
                "UPDATE evaluations SET state = 'parked', owner = NULL, due_at = ?, code = ?, "
                "reason = ?, failures = failures + ?, parked = parked + 1 "
                "WHERE event_id = ? AND state = 'claimed' AND owner = ?",
                (due_at, code, reason, failures, event_id, owner),
            )
        return done.rowcount == 1

    def release(self, event_id: str, *, owner: str, due_at: float) -> bool:
        """Give a claim back without a try, for example while a trajectory has not landed."""
        return self._leave_claim(event_id, owner, state="pending", due_at=due_at)

    def skip(self, event_id: str, *, owner: str, code: str, reason: str) -> bool:
        """End an evaluation without a verdict."""
        return self._leave_claim(event_id, owner, state="skipped", code=code, reason=reason)

    def answered(self, partitions: Sequence[int]) -> list[QueuedEvaluation]:
        """Return the evaluations of partitions whose answers are not emitted yet."""
        marks = ", ".join("?" * len(partitions))
        where = f"e.state = 'answered' AND e.partition IN ({marks})"
        return list(self._evaluations(where, *partitions))

    def emitted(self, event_ids: Iterable[str]) -> None:
        """Note that the verdicts are acknowledged, and forget their words."""
        with self._writing() as db:
            db.executemany(
                "UPDATE evaluations SET state = 'emitted', answer = NULL, owner = NULL "
                "WHERE event_id = ? AND state = 'answered'",
                [(event_id,) for event_id in event_ids],
            )

    def first_unsettled(self, partition: int) -> int | None:
        """Return the lowest offset that still needs its record in the log; None: none does.

        What is emitted, skipped or parked is settled: the journal alone holds the parked ones. An
        end whose evaluations cannot be listed, since its tenant's file is wrong, is parked too.
        """
        (row,) = self._rows(
            'SELECT min("offset") AS first FROM evaluations WHERE partition = ? '
            "AND state IN ('pending', 'claimed', 'answered') AND parked = 0",
            (partition,),
        )
        first: int | None = row["first"]
        return first

    def retry_parked(self, tenant: str | None = None, evaluator: str | None = None) -> int:
        """Make parked evaluations due now; returns their number."""
        with self._writing() as db:
            done = db.execute(
                "UPDATE evaluations SET due_at = 0 WHERE state = 'parked' "
                "AND tenant = coalesce(?, tenant) AND evaluator = coalesce(?, evaluator)",
                (tenant, evaluator),
            )
        return done.rowcount

    def release_claims(self, is_alive: Callable[[str], bool]) -> int:
        """Give back the claims of workers that are gone; returns their number."""
        query = "SELECT DISTINCT owner FROM evaluations WHERE state = 'claimed'"
        gone = [row["owner"] for row in self._rows(query, ()) if not is_alive(row["owner"])]
        released = 0
        for owner in gone:
            with self._writing() as db:
                released += db.execute(
                    "UPDATE evaluations SET state = 'pending', owner = NULL, due_at = 0 "
                    "WHERE state = 'claimed' AND owner = ?",
                    (owner,),
                ).rowcount
        return released

    def open_evaluators(self) -> dict[str, set[str]]:
        """Return tenant → names of evaluators with open evaluations, also of ends that wait."""
        names: dict[str, set[str]] = {tenant: set() for tenant in self.waiting_ends()}
        query = (
            "SELECT DISTINCT tenant, evaluator FROM evaluations "
            "WHERE state IN ('pending', 'claimed', 'parked')"
        )
        for row in self._rows(query, ()):
            names.setdefault(row["tenant"], set()).add(row["evaluator"])
        return names

    def counts(self) -> list[dict[str, Any]]:
        """Return tenant, evaluator, identity, state, code and the number of evaluations."""
        query = (
            "SELECT tenant, evaluator, identity, state, code, count(*) AS number, "
            "min(due_at) AS due_at FROM evaluations GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"
        )
        return [dict(row) for row in self._rows(query, ())]

    def waiting_ends(self) -> dict[str, int]:
        """Return tenant → ends that wait because the tenant's file is wrong."""
        query = "SELECT tenant, count(*) AS number FROM ends WHERE expanded = 0 GROUP BY tenant"
        return {row["tenant"]: row["number"] for row in self._rows(query, ())}

    def _leave_claim(self, event_id: str, owner: str, **values: object) -> bool:
        assignments = ", ".join(f"{name} = ?" for name in values)
        with self._writing() as db:
            done = db.execute(
                f"UPDATE evaluations SET owner = NULL, {assignments} "  # noqa: S608 - names of columns
                "WHERE event_id = ? AND state = 'claimed' AND owner = ?",
                (*values.values(), event_id, owner),
            )
        return done.rowcount == 1

    def _evaluations(self, where: str, *values: object) -> Iterator[QueuedEvaluation]:
        columns = ", ".join(f"ends.{name}" for name in _END_COLUMNS.split(", "))
        query = (
            f"SELECT e.event_id, e.evaluator, e.identity, e.failures, e.answer, {columns} "  # noqa: S608
            "FROM evaluations AS e JOIN ends USING (tenant, trajectory, attempt, end_event_id) "
            f'WHERE {where} ORDER BY e.partition, e."offset", e.event_id'
        )
        for row in self._rows(query, values):
            yield QueuedEvaluation(
                event_id=row["event_id"],
                evaluator=row["evaluator"],
                identity=row["identity"],
                failures=row["failures"],
                answer=row["answer"],
                end=_end(row),
            )


def _end(row: sqlite3.Row) -> EndedTrajectory:
    return EndedTrajectory(
        tenant=row["tenant"],
        trajectory=row["trajectory"],
        attempt=row["attempt"],
        end_event_id=row["end_event_id"],
        ended_at=datetime.fromisoformat(row["ended_at"]),
        status=row["status"],
        agent=row["agent"],
        session=row["session"],
        task=row["task"],
        partition=row["partition"],
        offset=row["offset"],
    )
