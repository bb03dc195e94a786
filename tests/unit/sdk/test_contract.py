"""An event that breaks the contract never leaves the process, and never raises in the host."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from atdp.schemas import (
    Action,
    Agent,
    Body,
    ContextFold,
    Event,
    EventId,
    Feedback,
    Gap,
    Link,
    Observation,
    Outcome,
    Reward,
    RuleExample,
    Source,
    TenantId,
    TrajectoryId,
    check_sequence,
    event_from_json,
    new_event_id,
    rule_examples,
)
from atdp.sdk import MemorySender, Recorder
from atdp.sdk.judgements import FeedbackFields, RewardFields

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


def test_an_unknown_field_is_not_lost_unnoticed(recorder: Recorder, sender: MemorySender) -> None:
    odd: dict[str, Any] = {"metdata": {"a": 1}}
    with recorder.trajectory() as trajectory:
        trajectory.act_message("hello", **odd)
        trajectory.reward(1.0, **odd)
    assert recorder.flush().failed == 2
    details = [event.body.detail for event in sender.events if isinstance(event.body, Gap)]
    assert [detail is not None and "metdata" in detail for detail in details] == [True, True]


def test_a_reward_has_every_field_that_is_given(recorder: Recorder, sender: MemorySender) -> None:
    given: RewardFields = {
        "critique": "good",
        "label": "pass",
        "scale": "0 to 2",
        "range_min": 0.0,
        "range_max": 2.0,
        "dimension": "style",
        "source_name": "judge",
        "evaluator_version": "3",
        "target_event_id": "019aa5c0-0000-7000-8000-000000000009",
        "target_step": 2,
        "token_start": 1,
        "token_end": 4,
        "compared_to": "019aa5c0-0000-7000-8000-000000000008",
        "observed_at": datetime(2026, 1, 2, tzinfo=UTC),
        "observed_at_nanos": 7,
        "supersedes": "019aa5c0-0000-7000-8000-000000000007",
    }
    recorder.reward(1.5, trajectory_id="t-1", **given)
    assert recorder.flush().failed == 0
    (reward,) = [event.body for event in sender.events]
    assert reward == Reward(target_kind="event", value=1.5, **given)
    assert given.keys() == RewardFields.__annotations__.keys()


def test_feedback_has_every_field_that_is_given(recorder: Recorder, sender: MemorySender) -> None:
    given: FeedbackFields = {
        "value": 4.0,
        "scale": "stars",
        "range_min": 1.0,
        "range_max": 5.0,
        "dimension": "style",
        "text": "good",
        "actor": "ann",
        "target_event_id": "019aa5c0-0000-7000-8000-000000000009",
        "target_step": 2,
        "observed_at": datetime(2026, 1, 2, tzinfo=UTC),
    }
    recorder.feedback("rating", trajectory_id="t-1", **given)
    assert recorder.flush().failed == 0
    (feedback,) = [event.body for event in sender.events]
    assert feedback == Feedback(type="rating", target_kind="event", **given)
    assert given.keys() == FeedbackFields.__annotations__.keys()


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"loss": math.nan, 1: [math.inf]}, '{"loss": "nan", "1": ["inf"]}'),
        ({("a", 1): {2.5}}, "{\"('a', 1)\": [2.5]}"),
    ],
)
def test_values_that_json_has_not_become_their_repr(
    recorder: Recorder, sender: MemorySender, metadata: dict[Any, object], text: str
) -> None:
    with recorder.trajectory() as trajectory:
        trajectory.act_message("hello", metadata=metadata)
    assert recorder.flush().failed == 0
    assert sender.events[1].metadata_json == text


CUT = "cut emoji \ud83d"


def test_a_text_with_half_a_surrogate_pair_is_escaped_and_costs_no_context(
    recorder: Recorder, sender: MemorySender
) -> None:
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": CUT, "extra": {CUT: CUT}},
        {"role": "user", "content": "whole \U0001f600"},
    ]
    with recorder.trajectory() as trajectory:
        for _ in range(2):
            trajectory.observe(chat, tools=[{"name": CUT}])
            trajectory.act_message("ok")
            chat += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "next"}]
        trajectory.tool_call("f", CUT)
        trajectory.tool_call("f", {"a": CUT})
        trajectory.outcome(CUT)
    recorder.flush()
    assert not [event for event in sender.events if isinstance(event.body, Gap)]
    assert check_sequence(sender.events) == ()  # the hash of the tools too
    fold = ContextFold.of(sender.events)
    assert fold.intact
    first, second, *_ = fold.messages
    assert (first.text, second.text) == ("cut emoji \\ud83d", "whole \U0001f600")
    assert json.loads(first.ext_json or "") == {
        "escaped_surrogates": True,
        "extra": {first.text: first.text},
    }
    assert second.ext_json is None


def test_identity_and_links_are_given_without_a_whole_event(
    recorder: Recorder, sender: MemorySender
) -> None:
    link = Link(relation="retry_of", event_id="e")
    with recorder.trajectory(group_id="g") as trajectory:
        trajectory.act_message(
            "hi",
            parent_event_id="p",
            trace_id="t",
            span_id="s",
            parent_span_id="q",
            source_step_id="7",
            links=[link],
        )
    recorder.flush()
    event = sender.events[1]
    assert {each.group_id for each in sender.events} == {"g"}
    assert (event.parent_event_id, event.trace_id, event.span_id) == ("p", "t", "s")
    assert (event.parent_span_id, event.source_step_id, event.links) == ("q", "7", (link,))


def test_one_cause_and_one_tool_definition_are_not_taken_apart(
    recorder: Recorder, sender: MemorySender
) -> None:
    with recorder.trajectory() as trajectory:
        trajectory.observe([], tools={"name": "find"}, caused_by="abc")
        trajectory.observe([], tools=[{"name": "find"}])
    recorder.flush()
    _, one, same, _ = sender.events
    assert one.caused_by == ("abc",)
    assert isinstance(one.body, Observation)
    assert isinstance(same.body, Observation)
    assert one.body.tools_json == '[{"name": "find"}]'
    assert one.body.tools_hash == same.body.tools_hash
