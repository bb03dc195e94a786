"""Planning of the next step.

A plan is a pure function of the step's number, the state (position and running baselines), the
candidates and the settings; its hash identifies all of them.
"""

from collections import Counter
from collections.abc import Sequence

from atdp.trainer.algo.advantages import turn_advantages, whitened
from atdp.trainer.algo.baseline import Baselines, Cluster
from atdp.trainer.checkpoint import TrainerState
from atdp.trainer.group_assembly import without_tokens
from atdp.trainer.groups import Assembly, Group, SetAside, members
from atdp.trainer.plan import PlannedGroup, PlannedMember, PlannedRefusals, StepPlan
from atdp.trainer.rating_comparison import RatingComparison, SessionSums
from atdp.trainer.reward_comparison import RewardComparison, RewardSums
from atdp.trainer.run_settings import RunSettings
from atdp.trainer.source import Poll
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey

_Advantages = Sequence[tuple[float, ...]]
_BEYOND_SHARE = "beyond the share of its tenant"


def make_plan(
    step: int,
    state: TrainerState,
    assembly: Assembly,
    settings: RunSettings,
    poll: Poll,
    *,
    replaces: str | None = None,
) -> StepPlan:
    """Plan a step on the oldest ready groups of `assembly`, which was made from `poll`.

    Trajectories that are set aside are decided with this step, whether or not it has groups. Groups
    that would have been in it, but are beyond the share of their tenant, are set aside as well.
    Attempts without tokens to train on are set aside, and their returns count in the advantages and
    in the running baselines.
    Trajectories that wait, or that are not offered yet, hold the marks of the position back.
    `replaces` is the hash of an earlier plan of this step whose data have been erased.
    """
    position, baselines = state.position, state.baselines
    chosen, beyond = _fill_step(assembly.ready, settings)
    later = assembly.ready[len(chosen) + len(beyond) :]
    set_aside = assembly.set_aside
    if beyond:
        attempts = tuple(t for group in beyond for t in group.attempts)
        set_aside += (SetAside(reason=_BEYOND_SHARE, members=attempts),)
    set_aside += without_tokens(chosen, settings.groups, counted=True)
    decided = members(chosen) + members(set_aside)
    undecided = [*(t for group in later for t in group.attempts), *assembly.waiting]
    starts = {*assembly.open_starts, *((t.partition, t.first_offset) for t in undecided)}
    alone = [group for group in chosen if group.alone]
    clusters = [_cluster(group.attempts[0]) for group in alone]
    returns = [group.returns[0] for group in alone]
    return StepPlan(
        step=step,
        groups=_planned_groups(chosen, _against_baseline(alone, baselines, settings), settings),
        set_aside=tuple(
            PlannedRefusals(
                reason=aside.reason,
                keys=tuple(t.key for t in aside.members),
                counted_tasks=tuple(t.task for t in aside.members) if aside.counted else None,
            )
            for aside in set_aside
        ),
        before=position,
        after=position.advance(decided, starts),
        settings=settings.hash,
        snapshots=poll.snapshots,
        refused=poll.refused,
        baselines=baselines.after(clusters, returns, horizon=settings.baseline_horizon),
        ratings=_ratings(decided),
        rewards=_rewards(chosen, set_aside),
        replaces=replaces,
    )


def is_full(assembly: Assembly, settings: RunSettings) -> bool:
    """Return True when a plan that is made from `assembly` has all that a step takes."""
    chosen, _ = _fill_step(assembly.ready, settings)
    return _size(chosen, settings) >= _full_size(settings)


def _fill_step(
    ready: Sequence[Group], settings: RunSettings
) -> tuple[Sequence[Group], Sequence[Group]]:
    """Return the oldest groups that fill a step, and those before its end that are left out.

    They are left out because their tenant already fills its share; every tenant may have one group.
    """
    most = settings.share_per_tenant * _full_size(settings)
    sizes: Counter[str] = Counter()
    chosen: list[Group] = []
    beyond: list[Group] = []
    for group in ready:
        if _size(chosen, settings) >= _full_size(settings):
            break
        size = _size([group], settings)
        if sizes[group.tenant] and sizes[group.tenant] + size > most:
            beyond.append(group)
        else:
            sizes[group.tenant] += size
            chosen.append(group)
    return chosen, beyond


def _size(groups: Sequence[Group], settings: RunSettings) -> int:
    """Return the share of a step that groups fill, as a multiple of `1 / _full_size`.

    A step is full with `groups_per_step` groups, or with `trajectories_per_step` trajectories that
    are compared with the running baseline, or with a mixture of as much. An attempt without tokens
    fills nothing.
    """
    trained = [group for group in groups if group.members]
    alone = sum(group.alone for group in trained)
    return (
        alone * settings.groups_per_step + (len(trained) - alone) * settings.trajectories_per_step
    )


def _full_size(settings: RunSettings) -> int:
    return settings.groups_per_step * settings.trajectories_per_step


def _against_baseline(
    alone: Sequence[Group], baselines: Baselines, settings: RunSettings
) -> _Advantages:
    """Return the advantages of the members that are compared with the running baseline."""
    clusters = [_cluster(group.attempts[0]) for group in alone]
    values = baselines.compare(clusters, [group.returns[0] for group in alone])
    trained = [(group, value) for group, value in zip(alone, values, strict=True) if group.members]
    of_members = [value for _, value in trained]
    if not settings.whiten:
        return of_members
    return whitened(of_members, [_loss_tokens(group) for group, _ in trained])


def _loss_tokens(group: Group) -> list[int]:
    """Return the number of loss tokens that each return of a lone trajectory stands for."""
    turns = group.members[0].turns
    tokens = [len(t.output_ids) if t.loss_mask is None else sum(t.loss_mask) for t in turns]
    return tokens if len(group.returns[0]) == len(turns) else [sum(tokens)]


def _cluster(trajectory: TrainingTrajectory) -> Cluster:
    return Cluster(
        tenant=trajectory.key.tenant,
        agent=trajectory.agent,
        has_outcome=trajectory.reward is not None,
        versions=trajectory.prompt_and_tools,
    )


def _planned_groups(
    chosen: Sequence[Group], alone: _Advantages, settings: RunSettings
) -> tuple[PlannedGroup, ...]:
    """Return the groups with their advantages; `alone` are those of the lone trajectories."""
    of_alone = iter(alone)
    return tuple(
        _planned(
            group,
            [next(of_alone)] if group.alone else turn_advantages(group.returns, settings.advantage),
        )
        for group in chosen
        if group.members
    )


def _planned(group: Group, values: _Advantages) -> PlannedGroup:
    return PlannedGroup(
        tenant=group.tenant,
        task=group.task,
        members=tuple(
            PlannedMember(key=t.key, digest=t.digest, reward=t.reward, advantages=tuple(value))
            for t, value in zip(group.members, values[: len(group.members)], strict=True)
        ),
    )


def _ratings(decided: Sequence[TrainingTrajectory]) -> RatingComparison:
    measurable = [t for t in decided if t.tokens_refused is None]  # the others have no tokens
    return RatingComparison(
        rated=SessionSums.of(t for t in measurable if t.reward is not None),
        unrated=SessionSums.of(t for t in measurable if t.reward is None),
    )


def _rewards(chosen: Sequence[Group], set_aside: Sequence[SetAside]) -> RewardComparison:
    by_reason: dict[str, list[float | None]] = {}
    for aside in set_aside:
        by_reason.setdefault(aside.reason, []).extend(t.reward for t in aside.members)
    return RewardComparison(
        used=RewardSums.of(t.reward for t in members(chosen)),
        unused={reason: RewardSums.of(rewards) for reason, rewards in by_reason.items()},
    )


def planned_trajectories(
    plan: StepPlan, offered: Sequence[TrainingTrajectory]
) -> dict[TrajectoryKey, TrainingTrajectory] | None:
    """Return the members of the plan among `offered`.

    None when one of them, or an attempt whose reward counts, is missing, or when a member has other
    tokens than at the time of planning.
    """
    by_key = {trajectory.key: trajectory for trajectory in offered}
    if not by_key.keys() >= plan.counted.keys():
        return None
    planned = {}
    for group in plan.groups:
        for member in group.members:
            trajectory = by_key.get(member.key)
            if trajectory is None or trajectory.digest != member.digest:
                return None
            planned[member.key] = trajectory
    return planned
