"""Errors of evaluators: a wrong file, and the ways in which an evaluation gives no verdict."""

from atdp.rewards.errors import RewardError


class EvaluatorsError(RewardError):
    """An evaluators file is wrong; its tenant's trajectories wait until it is repaired."""


class JournalError(RewardError):
    """The journal of evaluations cannot be used."""


class EvaluationFailed(RewardError):
    """An evaluation gave no verdict and is repeated later.

    The message is the reason and holds nothing of the trajectory or of the answer. `code` is one
    word for counting: `down`, `slow`, `rate_limited`, `refused`, `nonsense`, `failed`, `key`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.cost = cost
        """Cost of the answer that is no verdict; None: there was none, or it is unknown."""
        self.retry_after_s = retry_after_s
        """Time for which the judge wants no call; None: it stated none."""


class CallNotMade(EvaluationFailed):
    """The judge certainly did no work: the call counts neither as made nor as paid."""


class BudgetSpent(RewardError):
    """The budget of the day is spent; evaluations wait for the next day."""
