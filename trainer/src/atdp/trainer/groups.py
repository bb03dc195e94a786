"""Groups for GRPO out of a log.

Online trainers sample a group on purpose; in a log, members of a group are whoever attempted the
same task. So a group can stay incomplete, have one member, or contain members that may not be
trained on. The rules:

- members share tenant and task; a member that cannot be trained on (ineligible, no token ids, too
  stale) never enters a group's statistics: it is set aside alone and the others go on;
- groups form in order of start. Finishing order would favour short trajectories, which arrive
  first;
- a group is *ready* with `size` members. An incomplete one waits until its window has closed (or
  the source says nothing more comes); then it goes on if it has `min_size` members, else it is set
  aside. A missing reward is waited for in the same way: it is not a reward of 0;
- a trajectory's *window* closes when `window` further ones have started after it in its Kafka
  partition, whatever has become of them. Offsets count them, so an agent's wrong clock cannot hold
  a window open, and a position lists at most so many per partition. A trajectory that is not
  offered (it has not ended, or is not yet what the run asks for) is waited for just as long;
- a group with equal rewards is set aside: nothing to learn from.

Nothing disappears: every trajectory that came in is in a ready group, set aside with a reason, or
waiting. What a run sets aside, the next run looks at anew: a reward may have come.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from atdp.trainer.algo.advantages import is_uniform
from atdp.trainer.position import Start
from atdp.trainer.trajectory import Trajectory, TrajectoryKey, refusal_for_rl


@dataclass(frozen=True, kw_only=True)
class GroupRules:
    """How groups form."""

    size: int = 8
    min_size: int = 2
    """Smallest incomplete group that is trained once its window has closed; at least 2."""
    window: int = 128
    """Trajectories that may start after a member, in its partition, before it is no longer waited
    for: about 500 of a stream in four partitions, as the platform's is. A larger one waits longer
    for rewards, and makes positions longer."""
    max_staleness: int = 4
    """Largest distance between the version being trained and the oldest version that produced a
    member."""
    tokenizer: str | None = None
    """Accept only token ids of this tokenizer (SHA-256); `None`: any."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.min_size < 2 or self.size < self.min_size:
            raise ValueError(
                f"group sizes must satisfy 2 <= min_size <= size, got {self.min_size} and {self.size}"
            )
        if self.window < 0:
            raise ValueError(f"window must be at least 0, got {self.window}")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Members of one task that are compared with each other, in order of start."""

    tenant: str
    task: str
    members: tuple[Trajectory, ...]
    rewards: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """Trajectories that will not be trained on, and why."""

    reason: str
    members: tuple[Trajectory, ...]


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Every candidate, in exactly one place."""

    ready: tuple[Group, ...]
    set_aside: tuple[SetAside, ...]
    waiting: tuple[Trajectory, ...]
    open_starts: tuple[Start, ...] = ()
    """Of the starts that are not candidates, those whose window has not closed: still waited for.
    """


def assemble(
    candidates: Iterable[Trajectory],
    rules: GroupRules,
    *,
    version_numbers: Mapping[str, int],
    version_now: int,
    exhausted: bool,
    already_trained: Collection[TrajectoryKey] = (),
    decided: Iterable[Start] = (),
    open_starts: Collection[Start] = (),
) -> Assembly:
    """Sort candidates into groups.

    `already_trained`: what the ancestors of these weights learned from. `decided` and
    `open_starts`: where the trajectories began that are candidates no more, or not yet.
    `version_numbers` maps weight versions to their distance from the first one; `version_now` is
    that of the weights being trained. `exhausted`: the source will give nothing more, so nothing is
    waited for.
    """
    ordered = sorted(candidates, key=_start_order)
    began = {*decided, *open_starts, *((t.partition, t.first_offset) for t in ordered)}
    closed_to = _closed_to(began, rules.window)
    set_aside: list[SetAside] = []
    tasks: dict[tuple[str, str], list[tuple[int, Trajectory]]] = {}
    for rank, trajectory in enumerate(ordered):
        if trajectory.key in already_trained:
            reason: str | None = "already trained on by an ancestor"
        else:
            reason = refusal_for_rl(trajectory) or _stale(
                trajectory, rules, version_numbers, version_now
            )
        if reason is not None:
            set_aside.append(SetAside(reason=reason, members=(trajectory,)))
        elif trajectory.task is not None:
            tasks.setdefault((trajectory.key.tenant, trajectory.task), []).append(
                (rank, trajectory)
            )
    ready: list[tuple[int, Group]] = []
    waiting: list[Trajectory] = []
    for (tenant, task), ranked in tasks.items():
        for start in range(0, len(ranked), rules.size):
            part = ranked[start : start + rules.size]
            closed = exhausted or all(
                t.first_offset <= closed_to.get(t.partition, -1) for _, t in part
            )
            rewarded = [t for _, t in part if t.reward is not None]
            complete = len(rewarded) == rules.size
            if not complete and not closed:
                waiting += [t for _, t in part]
                continue
            unrewarded = tuple(t for _, t in part if t.reward is None)
            if unrewarded:
                set_aside.append(SetAside(reason="no reward", members=unrewarded))
            rewards = tuple(t.reward for t in rewarded if t.reward is not None)
            if len(rewarded) < rules.min_size:
                if rewarded:
                    reason = "singleton group" if len(rewarded) == 1 else "group too small"
                    set_aside.append(SetAside(reason=reason, members=tuple(rewarded)))
            elif is_uniform(rewards):
                set_aside.append(
                    SetAside(reason="equal rewards in the group", members=tuple(rewarded))
                )
            else:
                group = Group(tenant=tenant, task=task, members=tuple(rewarded), rewards=rewards)
                ready.append((part[0][0], group))
    return Assembly(
        ready=tuple(group for _, group in sorted(ready, key=lambda item: item[0])),
        set_aside=tuple(set_aside),
        waiting=tuple(waiting),
        open_starts=tuple(start for start in open_starts if start[1] > closed_to.get(start[0], -1)),
    )


def _closed_to(began: Iterable[Start], window: int) -> dict[int, int]:
    """Per partition the last offset after which `window` trajectories have started; none where so many have not."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in began:
        offsets.setdefault(partition, []).append(offset)
    return {
        partition: sorted(found)[-window - 1]
        for partition, found in offsets.items()
        if len(found) > window
    }


def _stale(
    trajectory: Trajectory, rules: GroupRules, version_numbers: Mapping[str, int], version_now: int
) -> str | None:
    """Staleness is bounded where data are consumed: admission control would miss everything that comes from a log."""
    tokenizers = {turn.tokenizer for turn in trajectory.turns}
    if rules.tokenizer is not None and tokenizers - {rules.tokenizer}:
        return "tokens of another tokenizer"
    numbers = []
    for version in {version for turn in trajectory.turns for version in turn.versions}:
        if version not in version_numbers:
            return f"unknown weight version {version}"
        numbers.append(version_numbers[version])
    age = version_now - min(numbers)
    if age > rules.max_staleness:
        return f"stale: {age} versions old, limit {rules.max_staleness}"
    return None


def _start_order(trajectory: Trajectory) -> tuple[int, TrajectoryKey]:
    return trajectory.started_us, trajectory.key


def members(groups: Sequence[Group] | Sequence[SetAside]) -> list[Trajectory]:
    """All trajectories of the groups."""
    return [member for group in groups for member in group.members]
