"""An event that breaks the contract never leaves the process, and never raises in the host."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from atdp.schemas import (
    Action,
    Agent,
    Body,
    Event,
    EventId,
    Gap,
    Observation,
    Outcome,
    Reward,
    RuleExample,
    Source,
    TenantId,
    TrajectoryId,
    event_from_json,
    new_event_id,
    rule_examples,
)
from atdp.sdk import MemorySender, Recorder

BAD_EXAMPLES = [example for example in rule_examples() if not example.good]


@pytest.mark.parametrize(
    "body",
    [
        Action(type="tool_call"),
        Reward(source_name="judge"),
        Reward(source_name="judge", value=1.0, target_kind="event"),
        Observation(context_base=-3),
        Outcome(ext_json="no JSON"),
    ],
    ids=["call without body", "empty reward", "target without id", "context_base", "ext_json"],
)
def test_a_body_that_breaks_the_contract_leaves_a_gap_that_names_the_rule(
    recorder: Recorder, sender: MemorySender, body: Body
) -> None:
    with recorder.trajectory() as trajectory:
        trajectory.emit(body)
    recorder.flush()
    assert [event.seq for event in sender.events] == [0, 1, 2]
    gap = sender.events[1].body
    assert isinstance(gap, Gap)
    assert gap.code == "not_recordable"
    assert gap.detail is not None
    assert f"({type(body).__name__}." in gap.detail
    assert "no JSON" not in gap.detail


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda trajectory, at: trajectory.act_message("hi", step=-1), "Event.not_negative"),
        (lambda trajectory, at: trajectory.act_message("hi", occurred_at=at), "Event.time"),
        (lambda trajectory, at: trajectory.act_message("hi", caused_by=["a\nb"]), "caused_by"),
    ],
    ids=["step", "time", "cause"],
)
@pytest.mark.parametrize("year", [1, 9999])
def test_envelope_fields_that_break_the_contract_leave_a_gap(
    recorder: Recorder, sender: MemorySender, call: Callable[..., object], rule: str, year: int
) -> None:
    with recorder.trajectory() as trajectory:
        call(trajectory, datetime(year, 1, 1, tzinfo=UTC))
    recorder.flush()
    gap = sender.events[1].body
    assert isinstance(gap, Gap)
    assert rule in (gap.detail or "")


@pytest.mark.parametrize(
    "options",
    [{"trajectory_id": "a\nb"}, {"session_id": "a\x00"}, {"attempt": -1}],
    ids=["control character", "NUL in session id", "attempt"],
)
def test_a_trajectory_whose_identity_breaks_the_contract_is_counted_as_failed(
    recorder: Recorder, sender: MemorySender, options: dict[str, Any]
) -> None:
    with recorder.trajectory(**options) as trajectory:
        event_id = trajectory.act_message("hi")
    report = recorder.flush()
    assert report.fates[event_id] == "failed"
    assert sender.events == []


@pytest.mark.parametrize("example", BAD_EXAMPLES, ids=lambda example: example.rule_id)
def test_a_whole_event_that_breaks_a_rule_is_counted_as_failed(
    recorder: Recorder, sender: MemorySender, example: RuleExample
) -> None:
    event_id = recorder.emit_event(event_from_json(example.document))
    assert recorder.flush().fates[event_id] == "failed"
    assert sender.events == []


def test_an_event_is_recorded_after_its_end_with_the_time_of_its_end(
    recorder: Recorder, sender: MemorySender
) -> None:
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    with recorder.trajectory() as trajectory:
        trajectory.outcome("done", call_id="c", ended_at=ended)
        trajectory.outcome("done", call_id="d", occurred_at=None)
    recorder.flush()
    assert sender.events[1].occurred_at == ended
    assert sender.events[2].occurred_at is None


def test_a_whole_event_of_a_good_example_is_delivered(
    recorder: Recorder, sender: MemorySender
) -> None:
    event = Event(
        event_id=EventId(new_event_id()),
        tenant_id=TenantId("acme"),
        trajectory_id=TrajectoryId("t"),
        producer_id="p",
        seq=0,
        agent=Agent(id="a"),
        source=Source(format="test"),
        body=Reward(source_name="judge", value=1.0),
    )
    recorder.emit_event(event)
    recorder.flush()
    assert sender.events == [event]
