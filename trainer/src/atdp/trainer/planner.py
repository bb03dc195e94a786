"""What the next step will train on, decided before it is done.

A plan is a pure function of the position, the candidates, the rules and the step number; its hash
names all of them. It is written to disk before the step. After a crash, steps behind the checkpoint
are repeated from their written plans, so new data that arrived in between cannot change what those
steps trained on, and the resumed run ends with the same weights.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.algo.advantages import AdvantageKind, advantages
from atdp.trainer.groups import Assembly, Group, members
from atdp.trainer.position import Position
from atdp.trainer.trajectory import Trajectory, TrajectoryKey


@dataclass(frozen=True, kw_only=True)
class PlannedMember:
    """A trajectory as the plan saw it.

    Its reward is fixed here: a correction that comes later does not change the step.
    """

    key: TrajectoryKey
    digest: str
    reward: float
    advantage: float


@dataclass(frozen=True, kw_only=True)
class PlannedGroup:
    """One group of a step."""

    tenant: str
    task: str
    members: tuple[PlannedMember, ...]


@dataclass(frozen=True, kw_only=True)
class PlannedRefusals:
    """Trajectories that this step decides not to train on."""

    reason: str
    keys: tuple[TrajectoryKey, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One step."""

    step: int
    groups: tuple[PlannedGroup, ...]
    set_aside: tuple[PlannedRefusals, ...]
    before: Position
    after: Position
    settings: str
    """Hash of everything configurable that the step depends on."""
    snapshots: Mapping[str, int]
    """Table snapshots that the candidates were read from: lineage, not identity (they expire; the
    hash leaves them out)."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Trajectories that governance kept back from the candidates, by reason: for people, likewise
    no identity."""
    replaces: str | None = None
    """Hash of a plan that could not be repeated because its data have been erased."""

    @property
    def hash(self) -> str:
        """SHA-256 over everything but the snapshots and what was refused."""
        content = self.to_json()
        del content["snapshots"], content["refused"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def trained(self) -> tuple[TrajectoryKey, ...]:
        """Every trajectory of the step, once per training."""
        return tuple(member.key for group in self.groups for member in group.members)

    def to_json(self) -> dict[str, Any]:
        """JSON form; floats survive it exactly."""
        return {
            "step": self.step,
            "groups": [
                {
                    "tenant": group.tenant,
                    "task": group.task,
                    "members": [[*m.key, m.digest, m.reward, m.advantage] for m in group.members],
                }
                for group in self.groups
            ],
            "set_aside": [
                {"reason": r.reason, "keys": [list(key) for key in r.keys]} for r in self.set_aside
            ],
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "settings": self.settings,
            "snapshots": dict(self.snapshots),
            "refused": dict(self.refused),
            "replaces": self.replaces,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Plan":
        """Inverse of `to_json`."""
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
                            advantage=advantage,
                        )
                        for t, i, a, digest, reward, advantage in group["members"]
                    ),
                )
                for group in value["groups"]
            ),
            set_aside=tuple(
                PlannedRefusals(
                    reason=r["reason"], keys=tuple(TrajectoryKey(*key) for key in r["keys"])
                )
                for r in value["set_aside"]
            ),
            before=Position.from_json(value["before"]),
            after=Position.from_json(value["after"]),
            settings=value["settings"],
            snapshots=value["snapshots"],
            refused=value["refused"],
            replaces=value["replaces"],
        )


def make_plan(
    step: int,
    position: Position,
    assembly: Assembly,
    *,
    groups_per_step: int,
    advantage: AdvantageKind,
    settings: str,
    snapshots: Mapping[str, int],
    refused: Mapping[str, int] | None = None,
    replaces: str | None = None,
) -> Plan:
    """Take the oldest ready groups.

    What is set aside is decided with this step, whether or not it has groups.

    What waits and what is not offered yet hold the position's marks back.
    """
    chosen, later = assembly.ready[:groups_per_step], assembly.ready[groups_per_step:]
    decided = members(chosen) + members(assembly.set_aside)
    undecided = [*members(later), *assembly.waiting]
    starts = {*assembly.open_starts, *((t.partition, t.first_offset) for t in undecided)}
    return Plan(
        step=step,
        groups=tuple(_planned(group, advantage) for group in chosen),
        set_aside=tuple(
            PlannedRefusals(reason=aside.reason, keys=tuple(t.key for t in aside.members))
            for aside in assembly.set_aside
        ),
        before=position,
        after=position.advance(decided, starts),
        settings=settings,
        snapshots=snapshots,
        refused=refused or {},
        replaces=replaces,
    )


def _planned(group: Group, kind: AdvantageKind) -> PlannedGroup:
    compared = advantages(group.rewards, kind)
    return PlannedGroup(
        tenant=group.tenant,
        task=group.task,
        members=tuple(
            PlannedMember(key=t.key, digest=t.digest, reward=reward, advantage=float(value))
            for t, reward, value in zip(group.members, group.rewards, compared, strict=True)
        ),
    )


def planned_trajectories(
    plan: Plan, offered: Sequence[Trajectory]
) -> dict[TrajectoryKey, Trajectory] | None:
    """The plan's members among `offered`, or `None` when one of them is gone or has other tokens than planned."""
    by_key = {trajectory.key: trajectory for trajectory in offered}
    found = {}
    for group in plan.groups:
        for member in group.members:
            trajectory = by_key.get(member.key)
            if trajectory is None or trajectory.digest != member.digest:
                return None
            found[member.key] = trajectory
    return found
