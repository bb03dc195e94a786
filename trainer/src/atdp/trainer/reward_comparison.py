"""The comparison, by reward, of what a run trains on with what it does not.

What is left out is not left out at random. Conversations with a personal value, stale weights or no
group differ from the others, and often in their reward: a run that never sees failures learns from
a better world than the one that it serves. So a run reports the rewards of both, by reason.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.algo.returns import are_comparable

_Z_95 = 1.96
"""Standard errors in half a 95 % interval of a normal distribution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardSums:
    """Sums over the rewards of trajectories, which can be added."""

    trajectories: int = 0
    rated: int = 0
    """Those of them that have a reward which sums stay finite with (`are_comparable`)."""
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, rewards: Iterable[float | None]) -> "RewardSums":
        """Return the sums over trajectories; None is one without a reward."""
        every = list(rewards)
        known = [reward for reward in every if reward is not None and are_comparable([[reward]])]
        return cls(
            trajectories=len(every),
            rated=len(known),
            total=math.fsum(known),
            squares=math.fsum(reward * reward for reward in known),
        )

    def __add__(self, other: "RewardSums") -> "RewardSums":
        """Return the sums over both."""
        return RewardSums(
            trajectories=self.trajectories + other.trajectories,
            rated=self.rated + other.rated,
            total=self.total + other.total,
            squares=self.squares + other.squares,
        )

    @property
    def mean(self) -> float | None:
        """The mean reward; None without rewards."""
        return self.total / self.rated if self.rated else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean; None with fewer than two rewards."""
        if self.rated < 2:
            return None
        spread = max(self.squares - self.total**2 / self.rated, 0.0)
        return math.sqrt(spread / (self.rated - 1) / self.rated)

    def differs_from(self, other: "RewardSums") -> bool:
        """Return whether the means differ by more than chance explains in 19 of 20 cases.

        The test is Welch's with the normal distribution, so it wants some dozens of rewards.
        """
        errors, means = (self.error, other.error), (self.mean, other.mean)
        if None in errors or None in means:
            return False
        gap = abs((means[0] or 0.0) - (means[1] or 0.0))
        return gap > _Z_95 * math.hypot(errors[0] or 0.0, errors[1] or 0.0)

    def to_json(self) -> list[float]:
        """Return the JSON form."""
        return [self.trajectories, self.rated, self.total, self.squares]

    @classmethod
    def from_json(cls, value: Sequence[float]) -> "RewardSums":
        """Return the sums of a JSON form; inverse of `to_json`."""
        trajectories, rated, total, squares = value
        return cls(trajectories=int(trajectories), rated=int(rated), total=total, squares=squares)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardComparison:
    """The rewards of the trajectories that were trained on, and of the others by reason."""

    used: RewardSums = field(default_factory=RewardSums)
    unused: Mapping[str, RewardSums] = field(default_factory=dict)

    def __add__(self, other: "RewardComparison") -> "RewardComparison":
        """Return the comparison over both."""
        reasons = sorted({*self.unused, *other.unused})
        none = RewardSums()
        return RewardComparison(
            used=self.used + other.used,
            unused={
                reason: self.unused.get(reason, none) + other.unused.get(reason, none)
                for reason in reasons
            },
        )

    def with_refused(self, rewards: Mapping[str, Sequence[float]]) -> "RewardComparison":
        """Return the comparison with what was refused before a run could decide about it."""
        refused = {reason: RewardSums.of(values) for reason, values in rewards.items()}
        return self + RewardComparison(unused=refused)

    def differing(self) -> tuple[str, ...]:
        """Return the reasons whose trajectories have other rewards than those trained on."""
        return tuple(reason for reason, sums in self.unused.items() if sums.differs_from(self.used))

    def summary(self) -> dict[str, Any]:
        """Return the means for a report."""

        def shown(sums: RewardSums) -> dict[str, Any]:
            return {
                "trajectories": sums.trajectories,
                "rated": sums.rated,
                "reward_mean": sums.mean,
            }

        return {
            "used": shown(self.used),
            "unused": {reason: shown(sums) for reason, sums in self.unused.items()},
            "differing": list(self.differing()),
        }

    def to_json(self) -> list[Any]:
        """Return the JSON form."""
        return [
            self.used.to_json(),
            {reason: sums.to_json() for reason, sums in self.unused.items()},
        ]

    @classmethod
    def from_json(cls, value: Sequence[Any] | None) -> "RewardComparison":
        """Return the comparison of a JSON form; None is a plan that was written without one."""
        if value is None:
            return cls()
        used, unused = value
        return cls(
            used=RewardSums.from_json(used),
            unused={reason: RewardSums.from_json(sums) for reason, sums in unused.items()},
        )
