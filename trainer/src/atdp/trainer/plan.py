"""The plan of one step: the trajectories that it trains on, decided before it is done.

A plan is written to disk before its step. After a crash the steps after the last checkpoint are
repeated from their written plans. So data that arrived in between cannot change what those steps
train on, and the resumed run ends with the same weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.algo.baseline import Baselines
from atdp.trainer.position import StreamPosition
from atdp.trainer.rating_comparison import RatingComparison
from atdp.trainer.reward_comparison import RewardComparison
from atdp.trainer.stored_hash import stored_hash
from atdp.trainer.trajectory import TrajectoryKey


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedMember:
    """A trajectory at the time of planning.

    Its rewards are fixed here; a correction that comes later does not change the step.
    """

    key: TrajectoryKey
    digest: str
    reward: float | None
    """Reward of the trajectory; None when only its turns have rewards."""
    advantages: tuple[float, ...]
    """One per turn, or a single one that holds for all its turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedGroup:
    """One group of a step, or one trajectory that is compared with the running baseline."""

    tenant: str
    task: str | None
    members: tuple[PlannedMember, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRefusals:
    """Trajectories that are set aside with this step, for one reason."""

    reason: str
    keys: tuple[TrajectoryKey, ...]
    counted_tasks: tuple[str | None, ...] | None = None
    """The task of each of them, where their rewards count in the comparison with others; None:
    they do not count."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        tasks = {} if self.counted_tasks is None else {"counted_tasks": list(self.counted_tasks)}
        return {"reason": self.reason, "keys": [list(key) for key in self.keys], **tasks}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PlannedRefusals":
        """Return the refusals of a JSON form; inverse of `to_json`."""
        tasks = value.get("counted_tasks")
        return cls(
            reason=value["reason"],
            keys=tuple(TrajectoryKey(*key) for key in value["keys"]),
            counted_tasks=None if tasks is None else tuple(tasks),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlan:
    """The plan of one step."""

    step: int
    groups: tuple[PlannedGroup, ...]
    set_aside: tuple[PlannedRefusals, ...]
    before: StreamPosition
    after: StreamPosition
    settings: str
    """Hash of everything configurable that the step depends on."""
    snapshots: Mapping[str, int]
    """Table snapshots that the candidates were read from. They are lineage and expire, so the hash
    leaves them out."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of trajectories that governance refused, by reason. The hash leaves them out too."""
    baselines: Baselines = field(default_factory=Baselines)
    """The running baselines after the step."""
    ratings: RatingComparison = field(default_factory=RatingComparison)
    """The rated and the unrated sessions that this step decides."""
    rewards: RewardComparison = field(default_factory=RewardComparison)
    """Rewards of what this step trains on and sets aside, for the report; the hash leaves them out.
    """
    replaces: str | None = None
    """Hash of a plan that could not be repeated because its data have been erased."""

    @property
    def hash(self) -> str:
        """SHA-256 of all fields but `snapshots`, `refused` and `rewards`."""
        content = self.to_json()
        del content["snapshots"], content["refused"], content["rewards"]
        return stored_hash(content)

    @property
    def trained(self) -> tuple[TrajectoryKey, ...]:
        """The keys of all trajectories of the step."""
        return tuple(member.key for group in self.groups for member in group.members)

    @property
    def counted(self) -> dict[TrajectoryKey, str | None]:
        """The trajectories of which only the rewards count, with their tasks."""
        return {
            key: task
            for refusals in self.set_aside
            for key, task in zip(refusals.keys, refusals.counted_tasks or (), strict=False)
        }

    @property
    def tasks(self) -> dict[TrajectoryKey, str | None]:
        """The trajectories that the step must be permitted to use, with their tasks."""
        trained = {member.key: group.task for group in self.groups for member in group.members}
        return {**trained, **self.counted}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; floats are exact in it."""
        return {
            "step": self.step,
            "groups": [
                {
                    "tenant": group.tenant,
                    "task": group.task,
                    "members": [
                        [*m.key, m.digest, m.reward, list(m.advantages)] for m in group.members
                    ],
                }
                for group in self.groups
            ],
            "set_aside": [refusals.to_json() for refusals in self.set_aside],
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "settings": self.settings,
            "snapshots": dict(self.snapshots),
            "refused": dict(self.refused),
            "baselines": self.baselines.to_json(),
            "ratings": self.ratings.to_json(),
            "rewards": self.rewards.to_json(),
            "replaces": self.replaces,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StepPlan":
        """Return the plan of a JSON form; inverse of `to_json`."""
        return cls(
            step=value["step"],
            groups=tuple(
                PlannedGroup(
                    tenant=group["tenant"],
                    task=group["task"],
                    members=tuple(
                        PlannedMember(
                            key=TrajectoryKey(t, i, a),
                            digest=digest,
                            reward=reward,
                            advantages=tuple(advantages),
                        )
                        for t, i, a, digest, reward, advantages in group["members"]
                    ),
                )
                for group in value["groups"]
            ),
            set_aside=tuple(map(PlannedRefusals.from_json, value["set_aside"])),
            before=StreamPosition.from_json(value["before"]),
            after=StreamPosition.from_json(value["after"]),
            settings=value["settings"],
            snapshots=value["snapshots"],
            refused=value["refused"],
            baselines=Baselines.from_json(value["baselines"]),
            ratings=RatingComparison.from_json(value["ratings"]),
            rewards=RewardComparison.from_json(value.get("rewards")),
            replaces=value["replaces"],
        )
