"""Finished trajectories, read from the lake through the governed reader.

Only what may be used for training is read; a trajectory that is refused gets no verdict.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from atdp.lakehouse import (
    Lake,
    ReadOptions,
    TrajectoryRecord,
    connect,
    governed_trajectories,
    sql_literal,
)
from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory
from atdp.rewards.evaluators.trajectory_reader import NotReadable, PlainTrajectory
from atdp.schemas import Message

_TOOL_CALLS = ("tool_call", "custom_tool_call")


class LakeTrajectories:
    """Reads from a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def read(
        self, tenant: str, ends: Sequence[EndedTrajectory]
    ) -> Sequence[PlainTrajectory | NotReadable]:
        """See `TrajectoryReader`.

        Raises:
            LakehouseError: the lake cannot be read now.
        """
        snapshots = self._lake.snapshots()
        position = self._lake.committed_offsets("events", snapshots["events"])
        landed = [end for end in ends if position.get(end.partition, 0) > end.offset]
        records: dict[tuple[str, int], TrajectoryRecord] = {}
        newest: dict[tuple[str, int], str] = {}
        refused: Mapping[str, int] = {}
        if landed:
            names = ", ".join(sorted({sql_literal(end.trajectory) for end in landed}))
            read = governed_trajectories(
                self._lake,
                purpose="train",
                tenant=tenant,
                where=f"trajectory_id IN ({names})",
                snapshots=snapshots,
                options=ReadOptions(require_exact=False),
            )
            records = {(record.trajectory_id, record.attempt): record for record in read}
            refused = read.refused
            newest = self._newest_ends(tenant, names, snapshots)
        found: dict[str, PlainTrajectory | NotReadable] = defaultdict(
            lambda: NotReadable(code="not_landed", reason="the end has not landed in the lake")
        )
        for end in landed:
            key = (end.trajectory, end.attempt)
            record = records.get(key)
            if record is None:
                why = ", ".join(sorted(refused)) if len(landed) == 1 else ""
                reason = f"not readable for training{': ' + why if why else ''}"
                found[end.end_event_id] = NotReadable(code="refused", reason=reason)
            elif newest.get(key) != end.end_event_id or record.status == "open":
                found[end.end_event_id] = NotReadable(
                    code="goes_on", reason="the trajectory went on after this end"
                )
            else:
                found[end.end_event_id] = plain_value(record)
        return [found[end.end_event_id] for end in ends]

    def _newest_ends(
        self, tenant: str, names: str, snapshots: Mapping[Any, int]
    ) -> dict[tuple[str, int], str]:
        # S608: the names are quoted.
        query = (
            "SELECT trajectory_id, attempt, arg_max(event_id, kafka_offset) FROM events "  # noqa: S608
            f"WHERE kind = 'trajectory_ended' AND trajectory_id IN ({names}) GROUP BY ALL"
        )
        with connect(
            lake=self._lake, tenant=tenant, purpose="train", snapshots=snapshots
        ) as connection:
            return {(row[0], row[1]): row[2] for row in connection.sql(query).rows()}


def plain_value(record: TrajectoryRecord) -> PlainTrajectory:
    """Return a trajectory as JSON values."""
    return {
        "tenant_id": record.tenant_id,
        "trajectory_id": record.trajectory_id,
        "attempt": record.attempt,
        "task_id": record.task_id,
        "agent_id": record.agent_id,
        "status": record.status,
        "tool_errors": record.tool_errors,
        "reward": record.reward,
        "steps": sorted({generation.step for generation in record.generations}),
        "messages": [_plain_message(message) for message in record.messages],
        "tools_json": record.tools_json,
    }


def _plain_message(message: Message) -> dict[str, Any]:
    calls = [
        {"name": part.name, "arguments": part.text}
        for part in message.parts
        if part.type in _TOOL_CALLS
    ]
    texts = [part.text for part in message.parts if part.type not in _TOOL_CALLS and part.text]
    value = {
        "role": message.role,
        "text": "\n".join(texts),
        "tool_calls": calls,
        "name": message.name,
        "call_id": message.call_id,
    }
    return {key: each for key, each in value.items() if each or key == "role"}
