"""One evaluation: ask a judge or call a function, again where that may help, within the budget."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from atdp.rewards.evaluators.errors import BudgetSpent, CallNotMade, EvaluationFailed
from atdp.rewards.evaluators.evaluators_file import CallableEvaluator, JudgeEvaluator, Retries
from atdp.rewards.evaluators.evaluators_store import ReadyEvaluator
from atdp.rewards.evaluators.function_process import call_function
from atdp.rewards.evaluators.journal import QueuedEvaluation
from atdp.rewards.evaluators.judge import JudgeClient
from atdp.rewards.evaluators.judge_prompt import ask_about
from atdp.rewards.evaluators.spending import Spending
from atdp.rewards.evaluators.verdict import Answer

_REPEATED_AT_ONCE = frozenset({"down", "slow", "rate_limited", "nonsense"})
"""Failures that may be over in seconds; the others wait until a person has done something."""


class EvaluationRun:
    """Evaluates with one evaluator; safe to use from several threads."""

    def __init__(
        self,
        evaluator: ReadyEvaluator,
        spending: Spending,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._evaluator, self._spending, self._stop, self._clock = evaluator, spending, stop, clock
        settings = evaluator.settings
        self._judge = (
            JudgeClient(settings, evaluator.folder, os.environ)
            if isinstance(settings, JudgeEvaluator)
            else None
        )

    def close(self) -> None:
        """Close the connections to the judge."""
        if self._judge is not None:
            self._judge.close()

    def answer(self, evaluation: QueuedEvaluation, trajectory: Mapping[str, Any]) -> Answer:
        """Return the answer about a trajectory.

        Raises:
            EvaluationFailed: the attempts gave no verdict.
            BudgetSpent: the day's budget does not allow a call.
        """
        retries = self._evaluator.settings.retries
        repeated = Retrying(
            stop=stop_after_attempt(retries.attempts),
            wait=lambda state: _wait_s(retries, state),
            retry=retry_if_exception(self._helps),
            sleep=self._sleep,
            reraise=True,
        )
        answer: Answer = repeated(self._attempt, evaluation, trajectory)
        return answer

    def _helps(self, error: BaseException) -> bool:
        """Return whether an attempt a moment later may help."""
        if self._stop.is_set() or not isinstance(error, EvaluationFailed):
            return False
        longest = self._evaluator.settings.retries.longest_wait_s
        return error.code in _REPEATED_AT_ONCE and (error.retry_after_s or 0) <= longest

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _attempt(self, evaluation: QueuedEvaluation, trajectory: Mapping[str, Any]) -> Answer:
        evaluator, settings = self._evaluator, self._evaluator.settings
        day = day_of(self._clock())
        names = (evaluator.tenant, evaluator.name, day)
        self._spending.reserve_call(*names, settings.budget)
        try:
            if isinstance(settings, CallableEvaluator):
                return call_function(settings, trajectory, evaluator.folder)
            answer = self._ask(settings, evaluation, trajectory)
        except CallNotMade:
            self._spending.correct(*names, calls=-1)
            raise
        except EvaluationFailed as error:
            if error.cost is not None:
                self._spending.correct(*names, cost=error.cost)
            raise
        if answer.cost is not None:
            self._spending.correct(*names, cost=answer.cost)
        return answer

    def _ask(
        self, settings: JudgeEvaluator, evaluation: QueuedEvaluation, trajectory: Mapping[str, Any]
    ) -> Answer:
        if self._judge is None:  # the settings are of a judge, so there is a client
            raise EvaluationFailed("failed", "the evaluator has no judge")
        shown = ask_about(
            self._evaluator.template, trajectory, max_tokens=settings.max_conversation_tokens
        )
        return self._judge.ask(shown, idempotency_key=evaluation.event_id)


def longest_run_s(retries: Retries, timeout_s: float) -> float:
    """Return the time within which a run ends, however its attempts go."""
    # An answer may drip for as long again after the last wait for a byte began.
    return retries.attempts * (2 * timeout_s + retries.longest_wait_s) + 10.0


def parked_until(
    error: EvaluationFailed | BudgetSpent, retries: Retries, failures: int, now: float
) -> float:
    """Return when a parked evaluation is tried again, in seconds since the epoch."""
    if isinstance(error, BudgetSpent):
        midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0)
        return midnight.timestamp() + 24 * 3600.0
    wait_s = min(retries.longest_parked_s, retries.parked_s * 2.0 ** min(failures, 30))
    return now + max(wait_s, error.retry_after_s or 0.0)


def day_of(now: float) -> str:
    """Return the UTC day of a time, by which budgets are counted."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def _wait_s(retries: Retries, state: RetryCallState) -> float:
    wait = wait_exponential(retries.first_wait_s, retries.longest_wait_s)
    wait_s = wait(state) + wait_random(0, retries.first_wait_s)(state)
    error = state.outcome.exception() if state.outcome is not None else None
    stated = error.retry_after_s if isinstance(error, EvaluationFailed) else None
    return min(retries.longest_wait_s, max(wait_s, stated or 0.0))
