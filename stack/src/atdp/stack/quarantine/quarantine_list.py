"""The quarantined records as the lake knows them, with what became of them.

The index has every record that was refused, once per event. The audit has what orders led to. Both
follow the log within seconds, so a record that was just released may still be listed as waiting; to
order it again changes nothing.
"""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from atdp.governance import QuarantinePlace
from atdp.lakehouse import ANY_PURPOSE, Lake, connect, sql_literal

QuarantineState: TypeAlias = Literal[
    "waiting", "quarantined_again", "released", "dropped", "discarded"
]
"""`quarantined_again`: it was released and refused again; `dropped`: the policy dropped it then."""
OPEN_STATES: Final[frozenset[str]] = frozenset({"waiting", "quarantined_again"})
"""States of records that are still in quarantine."""

_SELECT: Final = """
WITH decided AS (
    SELECT
        source_topic,
        source_partition,
        source_offset,
        max(kind) AS kind,
        arg_max(decision, (decided_at, kafka_offset)) FILTER (
            order_id IS NOT NULL AND decision <> 'not_carried_out'
        ) AS ordered,
        arg_max(coalesce(reason, ''), (decided_at, kafka_offset)) FILTER (
            order_id IS NOT NULL AND decision <> 'not_carried_out'
        ) AS new_reason,
        arg_max(ordered_by, (decided_at, kafka_offset)) FILTER (
            order_id IS NOT NULL AND decision <> 'not_carried_out'
        ) AS ordered_by
    FROM audit
    WHERE decision = 'quarantined' OR order_id IS NOT NULL
    GROUP BY ALL
),

listed AS (
    SELECT
        q.kafka_partition,
        q.kafka_offset,
        q.tenant_id,
        q.event_id,
        d.kind,
        CASE WHEN d.ordered = 'quarantined' THEN d.new_reason ELSE q.reason END AS reason,
        q.detail,
        CASE d.ordered
            WHEN 'quarantined' THEN 'quarantined_again'
            WHEN 'passed' THEN 'released'
            WHEN 'changed' THEN 'released'
            WHEN 'dropped' THEN 'dropped'
            WHEN 'discarded' THEN 'discarded'
            ELSE 'waiting'
        END AS state,
        d.ordered_by,
        q.source_topic,
        q.source_partition,
        q.source_offset,
        q.occurred_at,
        q.quarantined_at
    FROM quarantine_index AS q
    LEFT JOIN decided AS d USING (source_topic, source_partition, source_offset)
)

SELECT * FROM listed
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantinedRecord:
    """A quarantined record without its payload."""

    kafka_partition: int
    kafka_offset: int
    tenant_id: str
    event_id: str | None
    kind: str | None
    reason: str
    """Reason of the quarantine; after a release that was refused, the reason of that."""
    detail: str | None
    state: QuarantineState
    ordered_by: str | None
    """Principal whose order led to the state; None: nobody has ordered anything."""
    source_topic: str
    source_partition: int
    source_offset: int
    occurred_at: datetime
    quarantined_at: datetime

    @property
    def place(self) -> QuarantinePlace:
        """Its place in the quarantine topic."""
        return QuarantinePlace(self.kafka_partition, self.kafka_offset)

    @property
    def is_open(self) -> bool:
        """Return True while it is in quarantine."""
        return self.state in OPEN_STATES

    def row(self) -> dict[str, Any]:
        """Return the fields for a table or JSON, with the place in one."""
        fields = asdict(self)
        del fields["kafka_partition"], fields["kafka_offset"]
        return {"place": str(self.place), **fields}


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineQuery:
    """The records that are asked for; None and empty stand for all."""

    tenant: str | None = None
    reason: str | None = None
    kind: str | None = None
    since: datetime | None = None
    """Aware; those that were quarantined at this time or later."""
    places: frozenset[QuarantinePlace] = frozenset()
    open_only: bool = True
    """Leave out those that have left quarantine."""
    limit: int | None = None

    @property
    def names_something(self) -> bool:
        """Return True when it asks for less than everything in quarantine."""
        return bool(self.reason or self.kind or self.since or self.places or self.tenant)

    def sql(self) -> str:
        """Return the statement. The order is that of the raw topic, by partition."""
        words = {"tenant_id": self.tenant, "reason": self.reason, "kind": self.kind}
        terms = [f"{name} = {sql_literal(word)}" for name, word in words.items() if word]
        if self.since is not None:
            terms.append(f"quarantined_at >= TIMESTAMPTZ {sql_literal(self.since.isoformat())}")
        if self.places:
            pairs = ", ".join(f"({each.partition}, {each.offset})" for each in sorted(self.places))
            terms.append(f"(kafka_partition, kafka_offset) IN ({pairs})")
        if self.open_only:
            states = ", ".join(map(sql_literal, sorted(OPEN_STATES)))
            terms.append(f"state IN ({states})")
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        limit = f" LIMIT {self.limit}" if self.limit is not None else ""
        return f"{_SELECT}{where} ORDER BY source_partition, source_offset{limit}"


def count_quarantined(lake: Lake, query: QuarantineQuery, *, visible_tenant: str | None) -> int:
    """Return how many records a query has without its limit; see `quarantined_records`.

    Raises:
        LakehouseError: the lake cannot be read.
    """
    statement = replace(query, limit=None).sql()
    with connect(lake=lake, tenant=visible_tenant, purpose=ANY_PURPOSE) as connection:
        rows = connection.sql(f"SELECT count(*) AS records FROM ({statement})").dicts()  # noqa: S608
    return int(rows[0]["records"])


def quarantined_records(
    lake: Lake, query: QuarantineQuery, *, visible_tenant: str | None
) -> list[QuarantinedRecord]:
    """Return the records of a query; `visible_tenant` None is the operator, who sees all.

    Raises:
        LakehouseError: the lake cannot be read.
    """
    with connect(lake=lake, tenant=visible_tenant, purpose=ANY_PURPOSE) as connection:
        rows = connection.sql(query.sql()).dicts()
    return [QuarantinedRecord(**row) for row in rows]
