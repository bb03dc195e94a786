"""Trajectories from the lakehouse's governed reader.

Pinned snapshots (a dataset) give a fixed, exhausted source; without them every poll reads the
newest committed snapshots, so the source follows the stream. Purpose, consent and eligibility are
enforced by the reader; what it refuses is counted there by reason and passed on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atdp.lakehouse import (
    GenerationFacts,
    GenerationRecord,
    GovernedTrajectories,
    Lake,
    LakehouseError,
    TableName,
    TrajectoryRecord,
    connect,
    governed_trajectories,
)
from atdp.schemas import Message
from atdp.trainer.errors import SourceError
from atdp.trainer.position import Position, Start
from atdp.trainer.source import OPEN, Poll
from atdp.trainer.trajectory import Trajectory, TrajectoryKey, Turn, generation_refusal

_NO_ROW_LIMIT = 1 << 40
_NO_TIME_LIMIT_S = 3600.0
"""Of a read of offsets: as long as the governed reader's own."""


class LakeSource:
    """See the module docstring; implements `atdp.trainer.source.TrajectorySource`."""

    def __init__(
        self,
        lake: Lake,
        *,
        tenant: str | None = None,
        where: str | None = None,
        snapshots: Mapping[TableName, int] | None = None,
        too_old: Sequence[str] = (),
        learn_from_text: bool = False,
    ) -> None:
        """Read from `lake`; `where` is SQL over the columns of `trajectories`.

        What weight versions in `too_old` have produced is counted and not read: a run reads its
        selection from the beginning, and most of a long log is too stale to be trained on.

        `learn_from_text` reads messages for supervised training and does not ask for exact token
        ids; purpose and consent are required all the same.
        """
        self._lake = lake
        self._tenant = tenant
        self._where = where or "true"
        listed = ", ".join(f"'{version}'" for version in too_old)
        self._old = f"list_has_any(coalesce(weight_versions, []), [{listed}])" if too_old else None
        self._snapshots = snapshots
        self._text = learn_from_text
        self._held: _Held | None = None

    def poll(self, position: Position) -> Poll:
        """Ended trajectories the position has not decided, as of the newest (or the pinned) snapshots."""
        held = self._current(position)
        undecided = [t for t in held.trajectories.values() if not position.is_decided(t)]
        return Poll(
            trajectories=tuple(t for t in undecided if t.status != OPEN),
            open_starts=tuple(
                start for start in held.later if start[1] > position.marks.get(start[0], -1)
            ),
            exhausted=self._snapshots is not None,
            snapshots={str(table): snapshot for table, snapshot in held.snapshots.items()},
            refused=held.refused,
        )

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[Trajectory]:
        """From what was read last where possible, else read by id."""
        known = dict(self._held.trajectories) if self._held is not None else {}
        missing = [key for key in keys if key not in known]
        if missing:
            ids = ", ".join("'" + key.trajectory.replace("'", "''") + "'" for key in missing)
            known |= _by_key(self._read(f"trajectory_id IN ({ids})", None))
        return [known[key] for key in keys if key in known]

    def _current(self, position: Position) -> "_Held":
        """What the newest snapshots hold beyond the position; read again only when they have changed."""
        newest = self._snapshots if self._snapshots is not None else self._lake.snapshots()
        if self._held is None or dict(self._held.snapshots) != dict(newest):
            after = {partition: mark + 1 for partition, mark in position.marks.items()}
            read = self._read(
                f"(\n{self._where}\n) AND NOT {self._old}" if self._old else self._where, after
            )
            # A reward or an end that is still to come may select what is not selected now.
            selected = f"(status <> '{OPEN}' AND coalesce((\n{self._where}\n), false))"
            later = self._starts(f"NOT {selected}", read.snapshots)
            old = self._starts(f"{selected} AND {self._old}", read.snapshots) if self._old else ()
            self._held = _Held(
                trajectories=_by_key(read),
                later=later,
                snapshots=read.snapshots,
                refused=read.refused | ({"weights too old": len(old)} if old else {}),
            )
        return self._held

    def _starts(self, condition: str, snapshots: Mapping[TableName, int]) -> tuple[Start, ...]:
        """Where the trajectories began that fulfil a condition.

        Reads offsets only, so no purpose is asked for.
        """
        query = f"SELECT kafka_partition, first_offset FROM trajectories WHERE {condition}"  # noqa: S608 - the where of a trainer
        try:
            with connect(lake=self._lake, tenant=self._tenant, snapshots=snapshots) as stamps:
                return tuple(
                    stamps.sql(query, max_rows=_NO_ROW_LIMIT, timeout_s=_NO_TIME_LIMIT_S).rows()
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
                after=after,
                require_exact=not self._text,
                with_messages=self._text,
            )
        except LakehouseError as error:
            raise SourceError(f"the lake cannot be read for training: {error}") from error


@dataclass(frozen=True, kw_only=True)
class _Held:
    """One reading of the lake."""

    trajectories: Mapping[TrajectoryKey, Trajectory]
    later: tuple[Start, ...]
    """Starts of trajectories that are not offered, but may be later."""
    snapshots: Mapping[TableName, int]
    refused: Mapping[str, int]


def _by_key(records: GovernedTrajectories) -> dict[TrajectoryKey, Trajectory]:
    return {trajectory.key: trajectory for trajectory in map(trajectory_of, records)}


def trajectory_of(record: TrajectoryRecord) -> Trajectory:
    """The trainer's view of a record."""
    policies = sorted({f"{call.policy_id}@{call.policy_version}" for call in record.generations})
    started = min((call.occurred_at for call in record.generations), default=None)
    return Trajectory(
        key=TrajectoryKey(record.tenant_id, record.trajectory_id, record.attempt),
        task=record.task_id,
        turns=tuple(_turn(call) for call in record.generations),
        reward=record.reward,
        status=record.status,
        started_us=0 if started is None else round(started.timestamp() * 1_000_000),
        partition=record.kafka_partition,
        first_offset=record.first_offset,
        messages=tuple(openai_message(message) for message in record.messages),
        tools=tuple(json.loads(record.tools_json)) if record.tools_json else (),
        policy=policies[-1] if policies else None,
    )


def _turn(call: GenerationRecord) -> Turn:
    return Turn(
        prompt_ids=call.prompt_token_ids,
        output_ids=call.output_token_ids,
        logprobs=call.output_logprobs,
        versions=call.weight_versions,
        loss_mask=call.loss_mask,
        temperature=1.0 if call.temperature is None else call.temperature,
        top_p=1.0 if call.top_p is None else call.top_p,
        top_k=-1 if call.top_k is None else call.top_k,
        min_p=0.0 if call.min_p is None else call.min_p,
        tokenizer=call.tokenizer_hash,
        refusal=generation_refusal(_facts(call)),
    )


def _facts(call: GenerationRecord) -> GenerationFacts:
    """Return the facts for admission; a parameter that was not recorded stays `None` here."""
    return GenerationFacts(
        prompt_token_ids=call.prompt_token_ids,
        output_token_ids=call.output_token_ids,
        output_logprobs=call.output_logprobs,
        loss_mask=call.loss_mask,
        temperature=call.temperature,
        top_p=call.top_p,
        top_k=call.top_k,
        min_p=call.min_p,
        sampling_altered_by=call.sampling_altered_by,
        token_fidelity=call.token_fidelity,
        weight_versions=call.weight_versions,
        training_eligible=call.training_eligible,
    )


def openai_message(message: Message) -> dict[str, Any]:
    """A logged message in the shape that chat templates take."""
    plain: dict[str, Any] = {"role": message.role, "content": message.text or None}
    calls = [
        {
            "id": part.call_id,
            "type": "function",
            "function": {"name": part.name or "", "arguments": part.text or "{}"},
        }
        for part in message.parts
        if part.type == "tool_call"
    ]
    if calls:
        plain["tool_calls"] = calls
    if message.call_id is not None:
        plain["tool_call_id"] = message.call_id
    if message.name is not None:
        plain["name"] = message.name
    return plain
