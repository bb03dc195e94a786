"""An OTLP document as trajectories: one for each trace.

The records of a trace are read in the order of their start, which is also the order of `seq`. A
record becomes one event of its own, which carries in `ext_json` what its fields do not say, and the
events that belong to it: before it the observation of the messages that a model was shown, after it
further choices, the outcome of a tool call, and rewards. All of them name the record's place in the
document in `source_step_id`. Messages that were shown before are not repeated: an observation
carries only the new ones (`atdp.schemas.context`).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atdp.adapters.documents.json_text import canonical_document, ordered_json
from atdp.adapters.documents.remainder import remainder_of
from atdp.adapters.documents.times import instant_of_nanos
from atdp.adapters.documents.typed import as_id, as_text
from atdp.adapters.imported_trajectory import (
    ImportedEvent,
    ImportedTrajectory,
    make_events,
)
from atdp.adapters.otlp.attributes import keep_attributes, plain_attributes
from atdp.adapters.otlp.record_fields import failure_message, read_status, write_record
from atdp.adapters.otlp.records import OtlpRecord, records_of, without_records
from atdp.adapters.otlp.vocabulary import Operation, OtlpRecordFacts, Vocabulary
from atdp.schemas import (
    Action,
    Agent,
    EndStatus,
    Event,
    Message,
    Observation,
    Reward,
    Source,
    TrajectoryEnded,
    TrajectoryStarted,
    extend_context,
    hash_of_tools,
)

_MICROS = 1_000_000


def events_from_otlp(document: object, vocabulary: Vocabulary, tenant: str) -> list[Event]:
    """Return the events of a document for a tenant, trace by trace.

    Raises:
        UnreadableDocument: the value is no OTLP document, or it has no records.
    """
    return [
        event
        for trajectory in trajectories_of(document, vocabulary, "the document")
        for event in make_events(trajectory, tenant)
    ]


def trajectories_of(
    document: object, vocabulary: Vocabulary, origin: str
) -> Iterator[ImportedTrajectory]:
    """Yield a trajectory for each trace of a document, in the order of the document.

    Raises:
        UnreadableDocument: the value is no OTLP document, or it has no records.
    """
    digest = hashlib.sha256(canonical_document(document).encode()).hexdigest()
    records = records_of(document)
    rest = ordered_json(without_records(document))  # type: ignore[arg-type]  # has records
    traces: dict[str, list[OtlpRecord]] = {}
    for record in records:
        traces.setdefault(as_id(record.content.get("traceId")) or "", []).append(record)
    for trace_id, of_trace in traces.items():
        reading = _Reading(vocabulary=vocabulary, trace_id=trace_id or None)
        yield ImportedTrajectory(
            origin=f"{origin} trace {trace_id}",
            identity=(trace_id, digest),
            session_id=_first(vocabulary.session(_attributes(record)) for record in of_trace),
            agent=_agent(vocabulary, of_trace),
            source=Source(format=vocabulary.format),
            started_at=None,
            events=reading.events_of(of_trace, rest),
        )


def _first(found: Iterator[Any]) -> Any:
    return next((each for each in found if each is not None), None)


def _attributes(record: OtlpRecord) -> dict[str, Any]:
    return plain_attributes(record.content.get("attributes"))


def _agent(vocabulary: Vocabulary, records: list[OtlpRecord]) -> Agent:
    """Return the agent that a record names first, or else the service."""
    named = _first(vocabulary.agent(_attributes(record)) for record in records)
    if named is not None:
        agent: Agent = named
        return agent
    resource = plain_attributes(records[0].resource.get("attributes"))
    return Agent(
        id=as_id(resource.get("service.name")) or "unknown",
        version=as_text(resource.get("service.version")),
    )


@dataclass(slots=True)
class _Reading:
    """The events of one trace read so far, and the context that they add up to."""

    vocabulary: Vocabulary
    trace_id: str | None
    events: list[ImportedEvent] = field(default_factory=list)
    context: tuple[Message, ...] = ()
    spans: dict[str, int] = field(default_factory=dict)
    """Index of the event of a span, by span id."""
    step: int = -1
    ended: EndStatus = "unknown"
    tools: dict[str, Sequence[Any]] = field(default_factory=dict)
    """Tool definitions that were sent, by hash; each set is sent once."""

    def events_of(self, records: list[OtlpRecord], rest: str) -> tuple[ImportedEvent, ...]:
        """Return the events of a trace's records; the first one holds the rest of the document."""
        self.events.append(
            ImportedEvent(body=TrajectoryStarted(), trace_id=self.trace_id, ext_json=rest)
        )
        for record in sorted(records, key=_start):
            self._add(record)
        self.events.append(
            ImportedEvent(
                body=TrajectoryEnded(status=self.ended),
                step=max(self.step, 0),
                trace_id=self.trace_id,
            )
        )
        return tuple(self.events)

    def _add(self, record: OtlpRecord) -> None:
        content = record.content
        parent = as_id(content.get("parentSpanId"))
        status = read_status(content)
        facts = OtlpRecordFacts(
            name=as_text(content.get("eventName" if record.is_log else "name")) or "",
            is_root=parent is None and not record.is_log,
            failed=status == "error",
            failure=failure_message(content),
        )
        operation = self.vocabulary.read(_attributes(record), facts)
        if facts.is_root:
            self.ended = "failed" if facts.failed else "completed"
        at, nanos = instant_of_nanos(content.get("timeUnixNano" if record.is_log else _STARTED))
        end, end_nanos = instant_of_nanos(None if record.is_log else content.get("endTimeUnixNano"))
        if end is None or at is None or end < at:
            end, end_nanos = None, None
        common = ImportedEvent(
            body=operation.body,
            status=status,
            occurred_at=at,
            occurred_at_nanos=nanos,
            ended_at=end,
            ended_at_nanos=end_nanos,
            trace_id=self.trace_id,
            span_id=as_id(content.get("spanId")),
            parent_span_id=parent,
            source_step_id="/".join(map(str, record.position)),
            part_of=self.spans.get(parent or ""),
        )
        self._observe(operation, common)
        self._act(operation, common, record)

    def _observe(self, operation: Operation, common: ImportedEvent) -> None:
        if operation.shown is None and operation.tools is None:
            return
        shown, base = operation.shown or (), 0
        while base < min(len(shown), len(self.context)) and shown[base] == self.context[base]:
            base += 1
        tools_hash = tools_json = None
        if operation.tools is not None:
            tools_hash = hash_of_tools(operation.tools)
            if tools_hash not in self.tools:
                self.tools[tools_hash] = operation.tools
                tools_json = ordered_json(operation.tools)
        self._append(
            replace(
                common,
                body=Observation(
                    messages=shown[base:],
                    context_base=None if operation.shown is None else base,
                    tools_hash=tools_hash,
                    tools_json=tools_json,
                ),
                step=self.step + 1,
                status="ok",
                ended_at=None,
                ended_at_nanos=None,
            )
        )

    def _act(self, operation: Operation, common: ImportedEvent, record: OtlpRecord) -> None:
        body = operation.body
        self.step += isinstance(body, Action) and body.type == "generation"
        index = len(self.events)
        latency = None
        if common.ended_at is not None and common.occurred_at is not None:
            span = common.ended_at - common.occurred_at
            latency = (span.days * 86_400 + span.seconds) * _MICROS + span.microseconds
        target = self.spans.get(common.span_id or "") if isinstance(body, Reward) else None
        self._append(
            replace(
                common,
                step=max(self.step, 0),
                latency_us=latency,
                usage=operation.usage,
                cost=operation.cost,
                target=target,
                ext_json=ordered_json(self._kept(operation, common, record)),
            )
        )
        if common.span_id is not None and not record.is_log:
            self.spans[common.span_id] = index
        member = replace(common, part_of=index, causes=(index,), step=max(self.step, 0))
        for choice in operation.choices:
            self._append(replace(member, body=choice))
        if operation.outcome is not None:
            self._append(replace(member, body=operation.outcome))
        for reward in self.vocabulary.evaluations(record.content):
            self._append(replace(member, body=reward, target=index, status="ok"))

    def _kept(
        self, operation: Operation, common: ImportedEvent, record: OtlpRecord
    ) -> dict[str, Any]:
        content: Mapping[str, Any] = record.content
        others = {key: value for key, value in content.items() if key != "attributes"}
        rest = remainder_of(write_record(common, is_log=record.is_log), others)
        kept = {"record": rest} if rest else {}
        if "attributes" in content:
            tools = operation.tools
            if tools is not None:
                tools = self.tools[hash_of_tools(tools)]
            written = self.vocabulary.write(replace(operation, tools=tools))
            return {**kept, **keep_attributes(written, content["attributes"])}
        return {**kept, "no_attributes": True}

    def _append(self, event: ImportedEvent) -> None:
        self.events.append(event)
        self.context = extend_context(self.context, event.body)


_STARTED = "startTimeUnixNano"


def _start(record: OtlpRecord) -> tuple[int, int]:
    """Return the time that a record began; spans without a time come first, in their order."""
    key = "timeUnixNano" if record.is_log else _STARTED
    at, nanos = instant_of_nanos(record.content.get(key))
    if at is None:
        return 0, 0
    return int(at.timestamp()) * _MICROS + at.microsecond, nanos or 0
