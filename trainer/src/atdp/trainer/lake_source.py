"""The source of trajectories over the lakehouse's governed reader.

Pinned snapshots (a dataset) give a fixed, exhausted source. Without them the source follows the
stream: a poll reads the newest committed snapshots, unless the position has moved since the poll
before. Then a step was made of what was read, and the rest of it may suffice for the next step. A
read costs as much as many steps when sessions arrive faster than they are trained on.

The reader enforces purpose, consent and eligibility, and counts what it refuses by reason. What was
read before is asked about again at every poll and before every step, since consent may have been
withdrawn in between.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from atdp.lakehouse import (
    GovernedTrajectories,
    Lake,
    LakehouseError,
    ReadOptions,
    TableName,
    connect,
    governed_trajectories,
    withheld_among,
)
from atdp.schemas import TokenFidelity
from atdp.trainer.errors import SourceError
from atdp.trainer.lake_records import trajectory_of
from atdp.trainer.position import Start, StreamPosition
from atdp.trainer.source import OPEN, Poll
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey

_START_COLUMNS = "kafka_partition, first_offset"
_NO_ROW_LIMIT = 1 << 40
_NO_TIME_LIMIT_S = 3600.0
"""Time limit of a read of offsets; the governed reader has the same."""
_ANSWERS_HOLD_S = 60.0
"""Time after which it is asked again whether a trajectory may be used although nobody has decided
anything since: the time of a grant or of a retention class may have ended."""


class LakeSource:
    """Implements `atdp.trainer.source.TrajectorySource`; see the module docstring."""

    def __init__(  # noqa: PLR0913 (one for each property of the selection)
        self,
        lake: Lake,
        *,
        tenant: str | None = None,
        where: str | None = None,
        snapshots: Mapping[TableName, int] | None = None,
        too_old: Sequence[str] = (),
        learn_from_text: bool = False,
        step_rewards: bool = False,
        fidelity: TokenFidelity = "exact",
    ) -> None:
        """Read from `lake`; `where` is SQL over the columns of `trajectories`.

        Trajectories that weight versions in `too_old` have produced are counted and not read: a
        run reads its selection from the beginning, and most of a long log is too stale to be
        trained on. Trajectories that only their changed tokens exclude are offered for their
        rewards.

        `learn_from_text` reads messages for supervised training and does not require exact token
        ids; purpose and consent are required in any case. `step_rewards` also reads the rewards of
        steps and events. `fidelity` says how much redaction may have changed the token ids.
        """
        self._lake = lake
        self._tenant = tenant
        self._where = where or "true"
        listed = ", ".join(f"'{version}'" for version in too_old)
        self._old = f"list_has_any(coalesce(weight_versions, []), [{listed}])" if too_old else None
        self._snapshots = snapshots
        self._text = learn_from_text
        self._step_rewards = step_rewards
        self._fidelity: TokenFidelity = fidelity
        self._last_read: _LakeRead | None = None
        self._polled_at: StreamPosition | None = None
        self._answers: dict[TrajectoryKey, str | None] = {}
        self._answers_of: object = None
        self._answers_until_s = 0.0

    def poll(self, position: StreamPosition) -> Poll:
        """See `TrajectorySource`; reads the pinned or the newest snapshots."""
        read = self._current(position)
        undecided = [t for t in read.trajectories.values() if not position.is_decided(t)]
        withheld = self.withheld([t.key for t in undecided])
        refused = Counter(read.refused)
        rewards: dict[str, list[float]] = defaultdict(list)
        for reason, values in read.refused_rewards.items():
            rewards[reason].extend(values)
        for trajectory in undecided:
            if (gone := withheld.get(trajectory.key)) is not None:
                refused[gone] += 1
                rewards[gone] += [] if trajectory.reward is None else [trajectory.reward]
        return Poll(
            trajectories=tuple(t for t in undecided if t.status != OPEN and t.key not in withheld),
            open_starts=tuple(
                start for start in read.later if start[1] > position.marks.get(start[0], -1)
            ),
            exhausted=self._snapshots is not None,
            snapshots={str(table): snapshot for table, snapshot in read.snapshots.items()},
            refused=refused,
            refused_rewards=rewards,
        )

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[TrainingTrajectory]:
        """See `TrajectorySource`; only keys that the last poll did not read are read again."""
        known = dict(self._last_read.trajectories) if self._last_read is not None else {}
        missing = [key for key in keys if key not in known]
        if missing:
            ids = ", ".join("'" + key.trajectory.replace("'", "''") + "'" for key in missing)
            known |= _by_key(self._read(f"trajectory_id IN ({ids})", None))
        withheld = self.withheld(keys)
        return [known[key] for key in keys if key in known and key not in withheld]

    def withheld(self, keys: Collection[TrajectoryKey]) -> Mapping[TrajectoryKey, str]:
        """See `TrajectorySource`; an answer is kept until the rules change, at most a minute."""
        snapshots = self._lake.snapshots() if self._last_read is None else self._last_read.snapshots
        try:
            rules = self._lake.use_rules()
            if rules is not self._answers_of or time.monotonic() > self._answers_until_s:
                self._answers, self._answers_of = {}, rules
                self._answers_until_s = time.monotonic() + _ANSWERS_HOLD_S
            names = {(key.tenant, key.trajectory) for key in keys if key not in self._answers}
            if names:
                reasons = withheld_among(self._lake, "train", names, snapshots)
                self._answers |= {
                    key: reasons.get((key.tenant, key.trajectory))
                    for key in keys
                    if key not in self._answers
                }
        except LakehouseError as error:
            raise SourceError(f"the lake cannot be read for training: {error}") from error
        return {key: reason for key in keys if (reason := self._answers[key]) is not None}

    def _current(self, position: StreamPosition) -> "_LakeRead":
        """Return the trajectories after the position.

        The lake is read when it has changed and what was read before does not suffice for a step.
        """
        has_moved, self._polled_at = position != self._polled_at, position
        if self._last_read is not None and has_moved:
            return self._last_read
        newest = self._snapshots if self._snapshots is not None else self._lake.snapshots()
        if self._last_read is None or dict(self._last_read.snapshots) != dict(newest):
            after = {partition: mark + 1 for partition, mark in position.marks.items()}
            read = self._read(
                f"(\n{self._where}\n) AND NOT {self._old}" if self._old else self._where, after
            )
            # A trajectory that is not selected now may be selected after its end or its reward, or
            # when it has been governed again.
            selected = f"(status <> '{OPEN}' AND settled AND coalesce((\n{self._where}\n), false))"
            later = self._starts(f"NOT {selected}", read.snapshots)
            old = self._starts(f"{selected} AND {self._old}", read.snapshots) if self._old else ()
            self._last_read = _LakeRead(
                trajectories=_by_key(read),
                later=later,
                snapshots=read.snapshots,
                refused=read.refused | ({"weights too old": len(old)} if old else {}),
                refused_rewards=read.refused_rewards,
            )
        return self._last_read

    def _starts(self, condition: str, snapshots: Mapping[TableName, int]) -> tuple[Start, ...]:
        """Return the starts of the trajectories that fulfil a condition.

        Only offsets are read, so no purpose is required.
        """
        # S608: the condition is the SQL of the user who trains.
        query = f"SELECT {_START_COLUMNS} FROM trajectories WHERE {condition}"  # noqa: S608
        try:
            with connect(lake=self._lake, tenant=self._tenant, snapshots=snapshots) as tables:
                return tuple(
                    tables.sql(query, max_rows=_NO_ROW_LIMIT, timeout_s=_NO_TIME_LIMIT_S).rows()
                )
        except LakehouseError as error:
            raise SourceError(f"the lake cannot be read for training: {error}") from error

    def _read(self, where: str | None, after: Mapping[int, int] | None) -> GovernedTrajectories:
        try:
            return governed_trajectories(
                self._lake,
                purpose="train",
                tenant=self._tenant,
                where=where,
                snapshots=self._snapshots,
                options=ReadOptions(
                    after=after,
                    require_exact=not self._text,
                    worst_fidelity=self._fidelity,
                    with_changed_tokens=not self._text,
                    with_messages=self._text,
                    with_step_rewards=self._step_rewards,
                ),
            )
        except LakehouseError as error:
            raise SourceError(f"the lake cannot be read for training: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class _LakeRead:
    """The result of one read of the lake."""

    trajectories: Mapping[TrajectoryKey, TrainingTrajectory]
    later: tuple[Start, ...]
    """Starts of trajectories that are not offered now, but may be offered later."""
    snapshots: Mapping[TableName, int]
    refused: Mapping[str, int]
    refused_rewards: Mapping[str, Sequence[float]]


def _by_key(records: GovernedTrajectories) -> dict[TrajectoryKey, TrainingTrajectory]:
    return {trajectory.key: trajectory for trajectory in map(trajectory_of, records)}
