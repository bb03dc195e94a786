"""The governed reader: what trainer and replay read, and the only way they should.

Governance decided before the data landed; this decides again, from the stamps alone and closed by
default. A trajectory is taken whole or not at all: one event without a stamp, without the purpose,
or (for training) without consent granted refuses it, and so does, for training by RL, a generation
that is not eligible or not `exact`. Stamps are looked at first, over all rows of the tenant
whatever they allow, since a row that is not seen cannot refuse; content is then read through a
connection whose files hold only rows that allow the purpose, and every generation is checked once
more. What is refused is counted by reason, never dropped silently.

Order is that of the log: by first offset, then partition. The same snapshots give the same list.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

from atdp.lakehouse.admission import EXACT
from atdp.lakehouse.connection import ANY_PURPOSE, Connection, connect
from atdp.lakehouse.duck_types import text
from atdp.lakehouse.errors import LakehouseError
from atdp.lakehouse.lake import Lake
from atdp.lakehouse.queries import query
from atdp.lakehouse.sampling_effects import sampling_altered_by
from atdp.lakehouse.tables import TableName
from atdp.schemas import Message, Observation, Outcome, Part, extend

Purpose = Literal["train", "replay"]
Key = tuple[str, str, int]

NO_STAMP = "no_stamp"
NO_PURPOSE = "purpose_not_allowed"
WITHDRAWN = "consent_withdrawn"
NO_CONSENT = "consent_unknown"
NOT_ELIGIBLE = "not_eligible"
NOT_EXACT = "tokens_not_exact"
DISAGREES = "row_disagrees_with_stamp"

_NO_TIME_LIMIT_S = 3600.0  # a trainer's first read of a large dataset; a person's query has 60 s
_NO_LIMIT = 1 << 50  # of rows and bytes

_NAMED_AT_MOST = 5000  # a statement of 200 kB; beyond it most files are read anyway


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRecord:
    """One model call. Token arrays are empty when the engine gave none or governance removed them.

    `output_logprobs`: natural logs of the behaviour policy, one per output token; `loss_mask`: 1 =
    trains, `None` = all ones; `policy_versions`: (version, first token, end token exclusive) runs
    over the output tokens.
    """

    event_id: str
    seq: int
    step: int
    occurred_at: datetime
    model: str | None
    weight_version: str | None
    policy_versions: tuple[tuple[str, int, int], ...]
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    output_logprobs: tuple[float, ...]
    loss_mask: tuple[int, ...] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    sampling_altered_by: tuple[str, ...]
    """Further request parameters that changed the sampling (see `sampling_effects`): the logged
    log-probabilities are not those of the sampling."""
    tokenizer_hash: str | None
    template_hash: str | None
    finish_reason: str | None
    token_fidelity: str | None
    training_eligible: bool
    policy_id: str
    policy_version: int | None
    policy_hash: str | None
    kafka_partition: int
    kafka_offset: int

    @property
    def weight_versions(self) -> tuple[str, ...]:
        """Weight versions that produced the output, distinct, first span first; empty: unknown."""
        spans = tuple(dict.fromkeys(version for version, _, _ in self.policy_versions))
        return spans or ((self.weight_version,) if self.weight_version else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryRecord:
    """One trajectory that may be used for the purpose, whole.

    `reward` is `None` when none has come (not 0); `messages` is the context after the last event;
    `tools_json` the last tool definitions shown to the model. Offsets are of the governed topic;
    `last_offset` includes late rewards.
    """

    tenant_id: str
    trajectory_id: str
    attempt: int
    task_id: str | None
    session_id: str | None
    status: str
    reward: float | None
    reward_source: str | None
    generations: tuple[GenerationRecord, ...]
    messages: tuple[Message, ...]
    tools_json: str | None
    first_offset: int
    last_offset: int
    kafka_partition: int

    @property
    def key(self) -> Key:
        """Tenant, trajectory, attempt."""
        return (self.tenant_id, self.trajectory_id, self.attempt)


class GovernedTrajectories(list[TrajectoryRecord]):
    """The trajectories, and how they were come by."""

    def __init__(
        self,
        records: Sequence[TrajectoryRecord],
        *,
        refused: Mapping[str, int],
        snapshots: Mapping[TableName, int],
        position: Mapping[int, int],
    ) -> None:
        super().__init__(records)
        self.refused: dict[str, int] = dict(refused)
        """Reason → trajectories refused."""
        self.snapshots: dict[TableName, int] = dict(snapshots)
        """What was read; give them (or a dataset of them) again to read the same."""
        self.position: dict[int, int] = dict(position)
        """Partition → next offset: everything before is in these snapshots. Pass it as `after` to
        read only what is newer."""


def governed_trajectories(
    lake: Lake,
    *,
    purpose: Purpose,
    tenant: str | None = None,
    where: str | None = None,
    snapshots: Mapping[TableName, int] | None = None,
    after: Mapping[int, int] | None = None,
    require_exact: bool = True,
    with_messages: bool = True,
) -> GovernedTrajectories:
    """Every trajectory that may be used for `purpose`.

    Args:
        lake: where to read.
        purpose: `train` or `replay`.
        tenant: one tenant, or all (`None`).
        where: SQL expression over the columns of `trajectories`, e.g. `reward IS NOT NULL AND
            status = 'completed'`.
        snapshots: pinned snapshots (of a dataset); default: the newest.
        after: partition → next offset; only trajectories with an event (a late reward too) at or
            after it.
        require_exact: for `train`: only trajectories all of whose events are eligible for RL and
            whose token ids are exactly what the model saw and wrote. `False` for learning from text
            (SFT): purpose and consent are still required.
        with_messages: also fold the messages (reads the text columns).

    Raises:
        QueryFailed: `where` is wrong.
        SnapshotGone: a snapshot has been expired.
    """
    if purpose not in ("train", "replay"):
        raise LakehouseError(
            f"purpose {purpose!r} is not one that is read here; use 'train' or 'replay'"
        )
    refused: Counter[str] = Counter()
    with connect(lake=lake, tenant=tenant, purpose=ANY_PURPOSE, snapshots=snapshots) as stamps:
        pinned = stamps.snapshots
        filters = {"where": where or "true", "purpose": text(purpose), **_newer(stamps, after)}
        accepted: dict[Key, dict[str, Any]] = {}
        for row in _rows(stamps, "candidates", filters):
            reason = _refusal(row, purpose, require_exact=require_exact)
            if reason is None:
                accepted[_key(row)] = row
            else:
                refused[reason] += 1
    with connect(lake=lake, tenant=tenant, purpose=purpose, snapshots=pinned) as content:
        calls = _generations(content, filters, accepted)
        contexts = _contexts(content, filters, accepted) if with_messages else {}
    records = []
    for key, row in accepted.items():
        generations = calls.get(key, [])
        if any(not _sound(call, purpose, require_exact=require_exact) for call in generations):
            refused[DISAGREES] += 1
            continue
        messages, tools_json = contexts.get(key, ((), None))
        records.append(
            TrajectoryRecord(
                **{name: row[name] for name in _OF_CANDIDATE},
                generations=tuple(record for record, _ in generations),
                messages=messages,
                tools_json=tools_json,
            )
        )
    position = lake.committed_offsets("events", pinned["events"])
    return GovernedTrajectories(records, refused=refused, snapshots=pinned, position=position)


_OF_CANDIDATE = (
    "tenant_id",
    "trajectory_id",
    "attempt",
    "task_id",
    "session_id",
    "status",
    "reward",
    "reward_source",
    "first_offset",
    "last_offset",
    "kafka_partition",
)


def _refusal(row: Mapping[str, Any], purpose: Purpose, *, require_exact: bool) -> str | None:
    """Why a trajectory may not be used, from its stamps; anything missing counts against it."""
    if row["without_stamp"] is not False:
        return NO_STAMP
    if purpose == "train" and row["without_consent"] is not False:
        return WITHDRAWN if row["withdrawn"] else NO_CONSENT
    if row["without_purpose"] is not False:
        return NO_PURPOSE
    if purpose != "train" or not require_exact:
        return None
    if row["training_eligible"] is not True:
        return str(row["eligibility_reason"] or NOT_ELIGIBLE)
    return None if row["token_fidelity"] in (None, EXACT) else NOT_EXACT


def _sound(
    call: tuple[GenerationRecord, Mapping[str, Any]], purpose: Purpose, *, require_exact: bool
) -> bool:
    """The second look, at each row that was read."""
    record, row = call
    if not record.policy_id or purpose not in str(row["allowed_purposes"]).split("."):
        return False
    if purpose != "train":
        return True
    if row["consent"] != "granted":
        return False
    return not require_exact or (record.training_eligible and record.token_fidelity == EXACT)


def _generations(
    connection: Connection, filters: Mapping[str, str], accepted: Mapping[Key, object]
) -> dict[Key, list[tuple[GenerationRecord, Mapping[str, Any]]]]:
    found: dict[Key, list[tuple[GenerationRecord, Mapping[str, Any]]]] = {}
    names = [
        field.name for field in fields(GenerationRecord) if field.name != "sampling_altered_by"
    ]
    for row in _rows(connection, "generations", filters):
        if _key(row) not in accepted:
            continue
        values: dict[str, Any] = {name: row[name] for name in names}
        for array in ("prompt_token_ids", "output_token_ids", "output_logprobs"):
            values[array] = tuple(row[array] or ())
        values["loss_mask"] = None if row["loss_mask"] is None else tuple(row["loss_mask"])
        values["policy_versions"] = tuple(
            (span["version"], span["start"], span["end"]) for span in row["policy_versions"] or ()
        )
        penalties = {name: row[name] for name in ("frequency_penalty", "presence_penalty")}
        values["sampling_altered_by"] = sampling_altered_by(penalties, row["ext_json"])
        values["training_eligible"] = row["training_eligible"] is True
        values["policy_id"] = row["policy_id"] or ""
        found.setdefault(_key(row), []).append((GenerationRecord(**values), row))
    return found


def _contexts(
    connection: Connection, filters: Mapping[str, str], accepted: Mapping[Key, object]
) -> dict[Key, tuple[tuple[Message, ...], str | None]]:
    found: dict[Key, tuple[tuple[Message, ...], str | None]] = {}
    for row in _rows(connection, "context", filters):
        if _key(row) not in accepted:
            continue
        messages, tools_json = found.get(_key(row), ((), None))
        body: object = (
            Outcome(message=_message(row["message"]))
            if row["message"] is not None and row["message"]["role"] is not None
            else Observation(
                messages=tuple(_message(item) for item in row["messages"] or ()),
                context_base=row["context_base"],
            )
        )
        found[_key(row)] = (extend(messages, body), row["tools_json"] or tools_json)
    return found


def _message(item: Mapping[str, Any]) -> Message:
    return Message(**{**item, "parts": tuple(Part(**part) for part in item["parts"] or ())})


def _rows(
    connection: Connection, name: str, filters: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    result = connection.sql(
        query(name, **filters), max_rows=_NO_LIMIT, max_bytes=_NO_LIMIT, timeout_s=_NO_TIME_LIMIT_S
    )
    for batch in result.arrow().to_batches(
        max_chunksize=1024
    ):  # Python objects of a few rows at a time
        yield from batch.to_pylist()


def _key(row: Mapping[str, Any]) -> Key:
    return (row["tenant_id"], row["trajectory_id"], row["attempt"])


def _newer(connection: Connection, after: Mapping[int, int] | None) -> dict[str, str]:
    """Expressions for trajectories with an event at or after these positions: `after` says so, `named` lists them.

    The list lets DuckDB skip the row groups of all other trajectories, since files are sorted by
    trajectory.
    """
    if after is None:
        return {"after": "true", "named": "true"}
    arms = " ".join(
        f"WHEN {int(partition)} THEN {int(offset)}" for partition, offset in after.items()
    )
    floor = f"CASE kafka_partition {arms} ELSE 0 END" if arms else "0"
    names = connection.sql(
        query("touched", floor=floor),
        max_rows=_NO_LIMIT,
        max_bytes=_NO_LIMIT,
        timeout_s=_NO_TIME_LIMIT_S,
    )
    touched = [name for (name,) in names.rows()]
    listed = ", ".join(map(text, touched)) or "NULL"
    named = "true" if len(touched) > _NAMED_AT_MOST else f"trajectory_id IN ({listed})"
    return {"after": f"last_offset >= {floor} AND {named}", "named": named}
