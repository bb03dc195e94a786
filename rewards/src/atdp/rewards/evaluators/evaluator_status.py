"""The state of a home's evaluators, from its files and its journal."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from atdp.rewards.evaluators.errors import EvaluatorsError
from atdp.rewards.evaluators.evaluation_run import day_of
from atdp.rewards.evaluators.evaluators_store import EvaluatorsStore, evaluators_folder
from atdp.rewards.evaluators.journal import EvaluationJournal, journal_file
from atdp.rewards.evaluators.spending import Spending
from atdp.runtime import Home

_OPEN = frozenset({"pending", "claimed", "answered"})


@dataclass(slots=True)
class EvaluatorStatus:
    """One evaluator of a tenant, or what waits because the tenant's file is wrong."""

    tenant: str
    evaluator: str | None
    """None: the tenant's file is wrong, and `problem` says how."""
    identity: str | None = None
    pending: int = 0
    parked: dict[str, int] = field(default_factory=dict)
    """Reason → evaluations that are tried again."""
    next_try_at: datetime | None = None
    emitted: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason → evaluations without a verdict."""
    calls_today: int = 0
    calls_per_day: int | None = None
    cost_today: float = 0.0
    cost_per_day: float | None = None
    problem: str | None = None


def read_status(home: Home) -> list[EvaluatorStatus]:
    """Return the state of all evaluators of a home; today is the UTC day.

    Raises:
        JournalError: the journal cannot be read.
    """
    journal, spending = EvaluationJournal(journal_file(home)), Spending(journal_file(home))
    try:
        return list(_read(EvaluatorsStore(evaluators_folder(home)), journal, spending))
    finally:
        journal.close()
        spending.close()


def _read(
    store: EvaluatorsStore, journal: EvaluationJournal, spending: Spending
) -> list[EvaluatorStatus]:
    found = _Rows()
    for tenant in store.tenants():
        try:
            evaluators = store.evaluators_of(tenant)
        except EvaluatorsError as error:
            row = found[tenant, None]
            row.problem, row.pending = str(error), journal.waiting_ends().get(tenant, 0)
            continue
        for evaluator in evaluators:
            row = found[tenant, evaluator.name]
            row.identity = evaluator.identity
            budget = evaluator.settings.budget
            row.calls_per_day, row.cost_per_day = budget.calls_per_day, budget.cost_per_day
    for counted in journal.counts():
        _add(found[counted["tenant"], counted["evaluator"]], counted)
    today = day_of(time.time())
    for (tenant, name), row in found.items():
        if name is not None:
            row.calls_today, row.cost_today = spending.spent(tenant, name, today)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or ""))]


class _Rows(dict[tuple[str, str | None], EvaluatorStatus]):
    def __missing__(self, key: tuple[str, str | None]) -> EvaluatorStatus:
        self[key] = EvaluatorStatus(tenant=key[0], evaluator=key[1])
        return self[key]


def _add(row: EvaluatorStatus, counted: dict[str, object]) -> None:
    state, number = counted["state"], int(str(counted["number"]))
    code = str(counted["code"])
    if state in _OPEN:
        row.pending += number
    elif state == "emitted":
        row.emitted += number
    elif state == "skipped":
        row.skipped[code] = row.skipped.get(code, 0) + number
    else:
        row.parked[code] = row.parked.get(code, 0) + number
        due_at = datetime.fromtimestamp(float(str(counted["due_at"])), UTC)
        row.next_try_at = min(due_at, row.next_try_at or due_at)
