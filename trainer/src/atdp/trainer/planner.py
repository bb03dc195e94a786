"""Planning of the next step.

A plan is a pure function of the step's number, the position, the candidates and the settings; its
hash identifies all of them.
"""

from collections.abc import Sequence

from atdp.trainer.algo.advantages import AdvantageKind, advantages
from atdp.trainer.groups import Assembly, Group, members
from atdp.trainer.plan import PlannedGroup, PlannedMember, PlannedRefusals, StepPlan
from atdp.trainer.position import StreamPosition
from atdp.trainer.run_settings import RunSettings
from atdp.trainer.source import Poll
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey


def make_plan(
    step: int,
    position: StreamPosition,
    assembly: Assembly,
    settings: RunSettings,
    poll: Poll,
    *,
    replaces: str | None = None,
) -> StepPlan:
    """Plan a step on the oldest ready groups of `assembly`, which was made from `poll`.

    Trajectories that are set aside are decided with this step, whether or not it has groups.
    Trajectories that wait, or that are not offered yet, hold the marks of the position back.
    `replaces` is the hash of an earlier plan of this step whose data have been erased.
    """
    chosen = assembly.ready[: settings.groups_per_step]
    later = assembly.ready[settings.groups_per_step :]
    decided = members(chosen) + members(assembly.set_aside)
    undecided = [*members(later), *assembly.waiting]
    starts = {*assembly.open_starts, *((t.partition, t.first_offset) for t in undecided)}
    return StepPlan(
        step=step,
        groups=tuple(_planned(group, settings.advantage) for group in chosen),
        set_aside=tuple(
            PlannedRefusals(reason=aside.reason, keys=tuple(t.key for t in aside.members))
            for aside in assembly.set_aside
        ),
        before=position,
        after=position.advance(decided, starts),
        settings=settings.hash,
        snapshots=poll.snapshots,
        refused=poll.refused,
        replaces=replaces,
    )


def _planned(group: Group, kind: AdvantageKind) -> PlannedGroup:
    values = advantages(group.rewards, kind)
    return PlannedGroup(
        tenant=group.tenant,
        task=group.task,
        members=tuple(
            PlannedMember(key=t.key, digest=t.digest, reward=reward, advantage=float(value))
            for t, reward, value in zip(group.members, group.rewards, values, strict=True)
        ),
    )


def planned_trajectories(
    plan: StepPlan, offered: Sequence[TrainingTrajectory]
) -> dict[TrajectoryKey, TrainingTrajectory] | None:
    """Return the members of the plan among `offered`.

    None when one of them is missing, or has other tokens than at the time of planning.
    """
    by_key = {trajectory.key: trajectory for trajectory in offered}
    planned = {}
    for group in plan.groups:
        for member in group.members:
            trajectory = by_key.get(member.key)
            if trajectory is None or trajectory.digest != member.digest:
                return None
            planned[member.key] = trajectory
    return planned
