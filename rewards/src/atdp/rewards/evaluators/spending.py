"""Calls and cost of evaluators by day, which their budgets limit; durable, for all workers."""

from pathlib import Path

from atdp.rewards.evaluators.errors import BudgetSpent
from atdp.rewards.evaluators.evaluators_file import Budget
from atdp.rewards.evaluators.sqlite_file import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spending (
    tenant TEXT NOT NULL, evaluator TEXT NOT NULL, day TEXT NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, evaluator, day)
) STRICT, WITHOUT ROWID;
"""


class Spending(SqliteFile):
    """The spending of all evaluators, in the file of the journal."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, _SCHEMA)

    def reserve_call(self, tenant: str, evaluator: str, day: str, budget: Budget) -> None:
        """Count a call before it is made.

        Raises:
            BudgetSpent: the budget of the day allows no further call; nothing is counted.
        """
        with self._writing() as db:
            calls, cost = self._of(tenant, evaluator, day)
            limit = budget.cost_per_day
            if calls >= budget.calls_per_day or (limit is not None and cost >= limit):
                raise BudgetSpent(f"the budget of {evaluator} for {day} is spent")
            db.execute(
                "INSERT INTO spending (tenant, evaluator, day, calls) VALUES (?, ?, ?, 1) "
                "ON CONFLICT DO UPDATE SET calls = calls + 1",
                (tenant, evaluator, day),
            )

    def correct(
        self, tenant: str, evaluator: str, day: str, *, calls: int = 0, cost: float = 0.0
    ) -> None:
        """Add to what a day has spent: the cost of an answer, or -1 for a call not made."""
        with self._writing() as db:
            db.execute(
                "UPDATE spending SET calls = calls + ?, cost = cost + ? "
                "WHERE tenant = ? AND evaluator = ? AND day = ?",
                (calls, cost, tenant, evaluator, day),
            )

    def spent(self, tenant: str, evaluator: str, day: str) -> tuple[int, float]:
        """Return the calls and the cost of a day."""
        with self._lock:
            return self._of(tenant, evaluator, day)

    def _of(self, tenant: str, evaluator: str, day: str) -> tuple[int, float]:
        row = self._db.execute(
            "SELECT calls, cost FROM spending WHERE tenant = ? AND evaluator = ? AND day = ?",
            (tenant, evaluator, day),
        ).fetchone()
        return (0, 0.0) if row is None else (row["calls"], row["cost"])
