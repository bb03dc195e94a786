"""The recordings of a pinned dataset, read from the lake through the governed reader.

The purpose is `replay`, with messages. What governance refuses and what cannot be replayed is
counted by reason. The effects of tools are read from the recorded calls of the same rows.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from atdp.lakehouse import (
    Dataset,
    Lake,
    LakehouseError,
    ReadOptions,
    TrajectoryRecord,
    connect,
    governed_trajectories,
    load_dataset,
)
from atdp.replay.cassette.cassette import Cassette, make_cassette
from atdp.replay.cassette.recording import Chat, NotReplayable, Recording, recording_of
from atdp.replay.cassette.tool_rules import ToolRule, ToolRules
from atdp.replay.errors import ReplayDataError
from atdp.replay.report import DatasetInput
from atdp.schemas import canonical_sha256, message_to_chat

_EFFECTS = """
SELECT tenant_id, action.tool_call.name AS tool
FROM events
WHERE kind = 'action' AND action.tool_call.name IS NOT NULL
GROUP BY ALL
HAVING bool_and(coalesce(action.tool_call.side_effect IN ('none', 'read'), false))
"""
"""Tools of which every recorded call states that it changes nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingSet:
    """The recordings of a dataset, in the order of their keys."""

    dataset: DatasetInput
    rules: ToolRules
    cassettes: tuple[Cassette, ...]
    not_replayable: Mapping[str, int]
    """Reason → trajectories that governance permits and that cannot be replayed."""

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recordings."""
        return tuple(cassette.recording for cassette in self.cassettes)


def read_recordings(lake: Lake, name: str, rules: Mapping[str, ToolRule]) -> RecordingSet:
    """Return the recordings of a dataset.

    Raises:
        ReplayDataError: the dataset does not exist or cannot be read.
    """
    try:
        dataset = load_dataset(lake, name)
        records = governed_trajectories(
            lake,
            purpose="replay",
            tenant=dataset.tenant,
            where=dataset.where,
            snapshots=dataset.snapshots,
            options=ReadOptions(require_exact=False),
        )
        tool_rules = ToolRules(rules=rules, recorded_reads=_recorded_reads(lake, dataset))
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    cassettes, refused = make_cassettes(records, tool_rules)
    return RecordingSet(
        dataset=DatasetInput(
            name=name,
            snapshots={str(table): number for table, number in sorted(records.snapshots.items())},
            where=None if dataset.where == "true" else dataset.where,
            policy_versions=tuple(sorted(f"{p['id']}@{p['version']}" for p in dataset.policies)),
            content_sha256=recordings_sha256(cassettes),
            refused=records.refused,
        ),
        rules=tool_rules,
        cassettes=cassettes,
        not_replayable=refused,
    )


def make_cassettes(
    records: list[TrajectoryRecord], rules: ToolRules
) -> tuple[tuple[Cassette, ...], dict[str, int]]:
    """Return the cassettes of the replayable trajectories; reason → number of the others."""
    cassettes, refused = [], Counter[str]()
    for record in sorted(records, key=lambda each: each.key):
        try:
            cassettes.append(make_cassette(recording_of(record, rules, _tools(record))))
        except NotReplayable as error:
            refused[error.reason] += 1
    return tuple(cassettes), dict(sorted(refused.items()))


def recordings_sha256(cassettes: tuple[Cassette, ...]) -> str:
    """Return the digest of everything that a replay reads of its recordings."""
    rows = []
    for cassette in cassettes:
        recording = cassette.recording
        turns = [message_to_chat(turn.message) for turn in recording.turns]
        tools = list(recording.tools)
        rows.append(
            [
                cassette.sha256,
                recording.task_id,
                list(recording.agent),
                recording.record.reward,
                turns,
                tools,
            ]
        )
    return canonical_sha256(rows)


def _recorded_reads(lake: Lake, dataset: Dataset) -> frozenset[tuple[str, str]]:
    with connect(
        lake=lake, tenant=dataset.tenant, purpose="replay", snapshots=dataset.snapshots
    ) as connection:
        return frozenset((row["tenant_id"], row["tool"]) for row in connection.all_rows(_EFFECTS))


def _tools(record: TrajectoryRecord) -> list[Chat]:
    if record.tools_json is None:
        return []
    try:
        tools = json.loads(record.tools_json)
    except ValueError as error:
        raise NotReplayable("content_not_text") from error
    return tools if isinstance(tools, list) else []
