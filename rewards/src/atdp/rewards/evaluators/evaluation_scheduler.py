"""The loop of evaluations: list them, claim what is due, run it, emit what was answered.

Ends enter through `take`; they are in the journal when it returns. `step` never waits for a judge:
each evaluator of a tenant has threads of its own, so one that is slow or down delays no other. An
evaluation that fails is parked and tried again, for ever. Verdicts are emitted from the journal;
one that was sent and not noted as sent is sent again, under the same id with the same content.

An evaluation of an evaluator whose file has changed since is made by the new evaluator instead. One
whose evaluator is no longer in the file waits for it.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from atdp.lakehouse import LakehouseError
from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory, is_chosen
from atdp.rewards.evaluators.errors import BudgetSpent, EvaluationFailed, EvaluatorsError
from atdp.rewards.evaluators.evaluation_run import EvaluationRun, longest_run_s, parked_until
from atdp.rewards.evaluators.evaluator_metrics import EvaluatorMetrics
from atdp.rewards.evaluators.evaluators_store import EvaluatorsStore, ReadyEvaluator
from atdp.rewards.evaluators.journal import ClaimTerms, EvaluationJournal, QueuedEvaluation
from atdp.rewards.evaluators.spending import Spending
from atdp.rewards.evaluators.trajectory_reader import (
    NotReadable,
    PlainTrajectory,
    TrajectoryReader,
)
from atdp.rewards.evaluators.verdict_events import verdict_event_id, verdict_events
from atdp.rewards.reward_producer import RewardProducer

_log = logging.getLogger("atdp.rewards.evaluators")

_QUEUED_PER_THREAD = 4
"""Claimed evaluations per thread: the lake is read for several of them at once."""
_LISTED_AT_A_TIME = 1000
_NOT_LANDED_S = 1.0
_UNREADABLE_S = 5.0
_REMOVED_S = 60.0


@dataclass(slots=True)
class _Running:
    """The threads of one evaluator, and what they have in hand."""

    evaluator: ReadyEvaluator
    run: EvaluationRun
    pool: ThreadPoolExecutor
    futures: set[Future[None]] = field(default_factory=set)

    def room(self) -> int:
        """Return how many more evaluations to claim."""
        self.futures = {future for future in self.futures if not future.done()}
        return self.evaluator.settings.concurrency * _QUEUED_PER_THREAD - len(self.futures)

    def close(self) -> None:
        """Stop after what is in hand."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.run.close()


class EvaluationScheduler:
    """Evaluates the trajectories of some partitions, as one of several workers."""

    def __init__(
        self,
        store: EvaluatorsStore,
        journal: EvaluationJournal,
        reader: TrajectoryReader,
        producer: RewardProducer,
        metrics: EvaluatorMetrics,
        *,
        owner: str,
    ) -> None:
        self._store, self._journal, self._reader = store, journal, reader
        self._producer, self._metrics, self._owner = producer, metrics, owner
        self._spending = Spending(journal.file)
        self._clock: Callable[[], float] = time.time
        self._stop = threading.Event()
        self._running: dict[tuple[str, str], _Running] = {}
        self._problems: dict[str, str] = {}

    def problem(self) -> str | None:
        """Return what is wrong with evaluators files, for the health of the process."""
        return "; ".join(self._problems.values()) or None

    def take(self, ends: Sequence[EndedTrajectory]) -> None:
        """Take ends of trajectories; they are durable when this returns."""
        tenants = set(self._store.tenants())
        self._journal.add_ends(end for end in ends if end.tenant in tenants)

    def step(self, partitions: Sequence[int]) -> int:
        """Do what is due for the trajectories of partitions; returns the verdicts emitted.

        Raises:
            EmissionFailed: Kafka did not acknowledge verdicts; call again.
            JournalError: the journal cannot be written.
        """
        open_names = self._journal.open_evaluators()
        for tenant in sorted({*self._store.tenants(), *open_names}):
            evaluators = self._evaluators_of(tenant)
            if evaluators is None:
                continue
            self._list(tenant, evaluators)
            self._dispatch(tenant, evaluators, partitions)
            names = {evaluator.name for evaluator in evaluators}
            for name in sorted(open_names.get(tenant, set()) - names):
                self._park_removed(tenant, name, partitions)
        return self._emit(partitions)

    def offsets_to_commit(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return, by partition, the offset before which the log is no longer needed.

        `positions` are the next offsets to read, everything before which was taken.
        """
        return {
            partition: position if first is None else min(first, position)
            for partition, position in positions.items()
            for first in [self._journal.first_unsettled(partition)]
        }

    def wait_until_idle(self) -> None:
        """Wait for what is being evaluated."""
        for running in self._running.values():
            wait(running.futures)

    def close(self) -> None:
        """Finish what is being asked and start nothing new."""
        self._stop.set()
        for running in self._running.values():
            running.close()
        self._spending.close()

    def _evaluators_of(self, tenant: str) -> Sequence[ReadyEvaluator] | None:
        """Return the evaluators of a tenant; None while its file is wrong (logged once)."""
        try:
            evaluators = self._store.evaluators_of(tenant)
        except EvaluatorsError as error:
            if self._problems.get(tenant) != str(error):
                _log.error("trajectories of tenant %s wait: %s", tenant, error)
            self._problems[tenant] = str(error)
            return None
        self._problems.pop(tenant, None)
        return evaluators

    def _list(self, tenant: str, evaluators: Sequence[ReadyEvaluator]) -> None:
        if not evaluators:
            return
        for end in self._journal.unexpanded_ends(tenant, _LISTED_AT_A_TIME):
            chosen = [each for each in evaluators if is_chosen(each.settings, end)]
            self._journal.list_evaluations(end, _keyed(end, chosen))

    def _dispatch(
        self, tenant: str, evaluators: Sequence[ReadyEvaluator], partitions: Sequence[int]
    ) -> None:
        claimed: list[tuple[_Running, QueuedEvaluation]] = []
        for evaluator in evaluators:
            running = self._running_of(evaluator)
            if running is not None:
                claimed += [(running, each) for each in self._claim(running, partitions)]
        if not claimed:
            return
        ends = list({each.end.end_event_id: each.end for _, each in claimed}.values())
        now = self._clock()
        try:
            trajectories = self._reader.read(tenant, ends)
        except LakehouseError as error:
            _log.warning("trajectories cannot be read now: %s", error)
            for _, evaluation in claimed:
                self._release(evaluation, now + _UNREADABLE_S)
            return
        by_end = {end.end_event_id: each for end, each in zip(ends, trajectories, strict=True)}
        for running, evaluation in claimed:
            trajectory = by_end[evaluation.end.end_event_id]
            if not isinstance(trajectory, NotReadable):
                future = running.pool.submit(self._evaluate, running, evaluation, trajectory)
                running.futures.add(future)
            elif trajectory.code == "not_landed":
                self._release(evaluation, now + _NOT_LANDED_S)
            else:
                self._skip(evaluation, trajectory.code, trajectory.reason)

    def _running_of(self, evaluator: ReadyEvaluator) -> _Running | None:
        """Return the threads of an evaluator; None while those of its old version finish."""
        key = (evaluator.tenant, evaluator.name)
        running = self._running.get(key)
        if running is not None and running.evaluator != evaluator:
            if running.room() < running.evaluator.settings.concurrency * _QUEUED_PER_THREAD:
                return None
            running.close()
            running = None
        if running is None:
            threads = ThreadPoolExecutor(evaluator.settings.concurrency, f"evaluator-{key[1]}")
            run = EvaluationRun(evaluator, self._spending, self._stop, clock=self._clock)
            running = self._running[key] = _Running(evaluator, run, threads)
        return running

    def _claim(self, running: _Running, partitions: Sequence[int]) -> list[QueuedEvaluation]:
        evaluator, settings = running.evaluator, running.evaluator.settings
        room = running.room()
        if room <= 0:
            return []
        now = self._clock()
        rounds = _QUEUED_PER_THREAD + 1
        terms = ClaimTerms(
            owner=self._owner,
            now=now,
            until=now + rounds * longest_run_s(settings.retries, settings.timeout_s),
            partitions=partitions,
            most=room,
        )
        claimed = self._journal.claim(evaluator.tenant, evaluator.name, terms)
        current = []
        for evaluation in claimed:
            if evaluation.identity == evaluator.identity:
                current.append(evaluation)
            else:
                self._journal.list_evaluations(evaluation.end, _keyed(evaluation.end, [evaluator]))
                self._skip(evaluation, "replaced", f"evaluated by {evaluator.identity} instead")
        return current

    def _evaluate(
        self, running: _Running, evaluation: QueuedEvaluation, trajectory: PlainTrajectory
    ) -> None:
        """Evaluate in a thread of the evaluator; the outcome is in the journal afterwards."""
        if self._stop.is_set():
            self._release(evaluation, 0.0)
            return
        retries = running.evaluator.settings.retries
        try:
            answer = running.run.answer(evaluation, trajectory)
        except (EvaluationFailed, BudgetSpent) as error:
            code = error.code if isinstance(error, EvaluationFailed) else "budget"
            due_at = parked_until(error, retries, evaluation.failures, self._clock())
            self._park(evaluation, due_at, code, str(error))
        except Exception as error:  # noqa: BLE001 - see the next line
            # A bug must neither end the thread's work unnoticed nor lose the trajectory.
            _log.exception("an evaluation failed unexpectedly")
            failure = EvaluationFailed("failed", f"the evaluation failed ({type(error).__name__})")
            due_at = parked_until(failure, retries, evaluation.failures, self._clock())
            self._park(evaluation, due_at, failure.code, str(failure))
        else:
            if answer.verdict is None:
                self._skip(evaluation, "abstained", "the evaluator gives no verdict on it")
            else:
                signed = replace(answer, annotator=running.evaluator.annotator)
                self._journal.answer(
                    evaluation.event_id, owner=self._owner, answer=signed.as_json()
                )

    def _park_removed(self, tenant: str, name: str, partitions: Sequence[int]) -> None:
        now = self._clock()
        terms = ClaimTerms(
            owner=self._owner,
            now=now,
            until=now + _REMOVED_S,
            partitions=partitions,
            most=_LISTED_AT_A_TIME,
        )
        for evaluation in self._journal.claim(tenant, name, terms):
            reason = "the tenant's file has no such evaluator any more"
            self._park(evaluation, now + _REMOVED_S, "removed", reason)

    def _emit(self, partitions: Sequence[int]) -> int:
        by_tenant: defaultdict[str, list[QueuedEvaluation]] = defaultdict(list)
        for evaluation in self._journal.answered(partitions):
            by_tenant[evaluation.end.tenant].append(evaluation)
        emitted = 0
        for tenant, evaluations in by_tenant.items():
            events = [event for each in evaluations for event in verdict_events(each)]
            self._producer.send(events)
            self._journal.emitted(each.event_id for each in evaluations)
            for each in evaluations:
                self._metrics.evaluations.labels(tenant, each.evaluator, "emitted").inc()
            emitted += len(events)
        return emitted

    def _release(self, evaluation: QueuedEvaluation, due_at: float) -> None:
        self._journal.release(evaluation.event_id, owner=self._owner, due_at=due_at)

    def _park(self, evaluation: QueuedEvaluation, due_at: float, code: str, reason: str) -> None:
        self._journal.park(
            evaluation.event_id, owner=self._owner, due_at=due_at, code=code, reason=reason
        )
        self._metrics.evaluations.labels(evaluation.end.tenant, evaluation.evaluator, code).inc()

    def _skip(self, evaluation: QueuedEvaluation, code: str, reason: str) -> None:
        self._journal.skip(evaluation.event_id, owner=self._owner, code=code, reason=reason)
        self._metrics.evaluations.labels(evaluation.end.tenant, evaluation.evaluator, code).inc()


def _keyed(
    end: EndedTrajectory, evaluators: Sequence[ReadyEvaluator]
) -> dict[str, tuple[str, str]]:
    return {
        verdict_event_id(end, each.name, each.identity): (each.name, each.identity)
        for each in evaluators
    }
