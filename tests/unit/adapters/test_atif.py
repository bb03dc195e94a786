"""ATIF documents become events and come back whole."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.adapters import (
    ImportOptions,
    UnreadableDocument,
    atif_from_events,
    events_from_atif,
    run_import,
)
from atdp.adapters.documents.remainder import same_json
from atdp.schemas import (
    Action,
    Event,
    Observation,
    Outcome,
    TrajectoryEnded,
    fold_context,
)

from . import round_trip
from .odd_documents import ODD, places, with_odd_value
from .real_documents import ATIF
from .round_trip import assert_comes_back, over_the_wire

FULL: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "run-7",
    "trajectory_id": "root",
    "agent": {
        "name": "clerk",
        "version": "2.1",
        "model_name": "m-large",
        "tool_definitions": [
            {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
        ],
        "extra": {"parser": "json"},
    },
    "notes": "made up for this test",
    "extra": {"suite": "small"},
    "final_metrics": {
        "total_prompt_tokens": 30,
        "total_completion_tokens": 5,
        "total_cached_tokens": 4,
        "total_cost_usd": 0.25,
        "total_steps": 5,
        "extra": {"turns": 2},
    },
    "continued_trajectory_ref": "next.json",
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief.", "is_copied_context": False},
        {
            "step_id": 2,
            "timestamp": "2026-03-01T10:00:00.123456789Z",
            "source": "user",
            "message": [
                {"type": "text", "text": "See"},
                {"type": "image", "source": {"media_type": "image/png", "path": "a/b.png"}},
            ],
        },
        {
            "step_id": 3,
            "timestamp": "2026-03-01T12:00:01+02:00",
            "source": "agent",
            "model_name": "m-small",
            "reasoning_effort": "high",
            "message": [{"type": "text", "text": "Looking."}],
            "reasoning_content": "I should look.",
            "tool_calls": [
                {
                    "tool_call_id": "c1",
                    "function_name": "find",
                    "arguments": {"z": 1, "a": [None, 1.0]},
                    "extra": {"invocation": {"start_timestamp": 1.5}},
                },
                {"tool_call_id": "c2", "function_name": "ask", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "c1", "content": "none", "extra": {"score": 0.5}},
                    {
                        "source_call_id": "c2",
                        "content": [{"type": "text", "text": "ok"}],
                        "subagent_trajectory_ref": [
                            {"trajectory_id": "sub-1", "session_id": "run-7", "extra": {"n": 1}}
                        ],
                    },
                    {"content": None},
                ]
            },
            "metrics": {
                "prompt_tokens": 20,
                "completion_tokens": 3,
                "cached_tokens": 4,
                "cost_usd": 0.125,
                "prompt_token_ids": [1, 2],
                "completion_token_ids": [3, 4],
                "logprobs": [-0.5, -0.1],
                "extra": {"reasoning_tokens": 2, "cache_creation_input_tokens": 1, "x": None},
            },
            "llm_call_count": 1,
            "extra": {"ancestry": {"function_id": "f"}},
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "Copied.",
            "is_copied_context": True,
            "tool_calls": [{"tool_call_id": "c3", "function_name": "find", "arguments": {"q": 1}}],
            "observation": {"results": [{"source_call_id": "c3", "content": "old", "extra": {}}]},
        },
        {"step_id": 5, "source": "agent", "message": "", "llm_call_count": 0},
    ],
    "subagent_trajectories": [
        {
            "schema_version": "ATIF-v1.7",
            "trajectory_id": "sub-1",
            "agent": {"name": "helper", "version": "1"},
            "steps": [{"step_id": 1, "source": "agent", "message": "done"}],
        }
    ],
}


def own_events(document: object = FULL) -> list[Event]:
    events = events_from_atif(document, "acme")
    return [event for event in events if event.trajectory_id == events[0].trajectory_id]


def actions(kind: str) -> list[Action]:
    bodies = [event.body for event in own_events()]
    return [body for body in bodies if isinstance(body, Action) and body.type == kind]


def test_a_document_with_every_field_comes_back_whole() -> None:
    assert_comes_back(FULL, round_trip.ATIF)


@pytest.mark.skipif(not ATIF, reason="the real documents are not at hand")
@pytest.mark.parametrize("path", ATIF, ids=lambda path: path.stem)
def test_a_real_document_comes_back_whole(path: Path) -> None:
    assert_comes_back(json.loads(path.read_text("utf-8")), round_trip.ATIF)


def test_a_prompt_that_refers_to_an_earlier_call_is_written_whole() -> None:
    steps = [
        {
            "step_id": number + 1,
            "source": "agent",
            "message": "hi",
            "metrics": {"prompt_token_ids": prompt, "completion_token_ids": [4]},
        }
        for number, prompt in enumerate([[1, 2, 3], [1, 2, 3, 4, 5]])
    ]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a"}, "steps": steps}
    events = events_from_atif(document, "acme")
    first, second = (e for e in events if isinstance(e.body, Action) and e.body.generation)
    assert isinstance(second.body, Action)
    assert second.body.generation is not None
    generation = replace(
        second.body.generation,
        prompt_prefix_event_id=first.event_id,
        prompt_prefix_tokens=4,
        prompt_token_ids=(5,),
    )
    short = replace(second, body=replace(second.body, generation=generation))
    (written,) = atif_from_events([short if each is second else each for each in events])
    assert written["steps"] == steps


@given(place=st.sampled_from(places(FULL)), odd=ODD)
def test_a_document_with_an_odd_value_comes_back_whole_or_is_refused(
    place: tuple[Any, ...], odd: Any
) -> None:
    document = with_odd_value(FULL, place, odd)
    try:
        events = events_from_atif(document, "acme")
    except UnreadableDocument:
        return
    (written,) = atif_from_events(over_the_wire(events))
    assert same_json(written, document)


def test_steps_become_observations_actions_and_outcomes() -> None:
    kinds = [event.kind for event in own_events()]
    assert kinds == [
        "trajectory_started",
        *["observation"] * 3,
        *["action"] * 3,
        *["outcome"] * 3,
        *["observation"] * 2,
        "action",
        "trajectory_ended",
    ]
    assert [action.tool_call.name for action in actions("tool_call") if action.tool_call] == [
        "find",
        "ask",
    ]
    (asked,) = actions("generation")
    assert asked.generation is not None
    assert (asked.generation.model, asked.generation.reasoning_effort) == ("m-small", "high")
    assert asked.generation.output_token_ids == (3, 4)


def test_a_step_without_a_model_call_is_no_generation() -> None:
    assert len(actions("message")) == 1


def test_copied_steps_are_no_decisions_of_this_trajectory() -> None:
    copied = [
        event.body
        for event in own_events()
        if isinstance(event.body, Observation) and event.body.copied
    ]
    assert [message.role for body in copied for message in body.messages] == ["assistant", "tool"]


def test_the_context_holds_every_message_once() -> None:
    roles = [message.role for message in fold_context(own_events())]
    assert roles == ["system", "user", "assistant", *["tool"] * 3, "assistant", "tool", "assistant"]


def test_nanoseconds_and_unknown_times_are_kept() -> None:
    by_step = {event.source_step_id: event for event in own_events() if event.source_step_id}
    assert by_step["1"].occurred_at is None
    assert by_step["2"].occurred_at_nanos == 789
    assert str(by_step["3"].occurred_at) == "2026-03-01 10:00:01+00:00"


def test_an_embedded_sub_agent_is_a_trajectory_that_the_outcome_names() -> None:
    events = events_from_atif(FULL, "acme")
    (sub,) = {event.trajectory_id for event in events} - {events[0].trajectory_id}
    named = [
        event.body.subagent_trajectory_id for event in events if isinstance(event.body, Outcome)
    ]
    assert named == [None, sub, None]
    assert {event.parent_trajectory_id for event in events} == {None, events[0].trajectory_id}


def test_the_continuation_is_a_link() -> None:
    (ended,) = [event for event in own_events() if isinstance(event.body, TrajectoryEnded)]
    assert [(link.relation, link.ext_json) for link in ended.links] == [
        ("continued_by", '{"trajectory_path":"next.json"}')
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not an object"),
        ("{", "not JSON"),
        ('{"schema_version":"2"}', "schema_version"),
        ('{"schema_version":"ATIF-v1.7","agent":1}', "'agent'"),
        ('{"schema_version":"ATIF-v1.7","agent":{},"steps":[1]}', "'steps'"),
        ('{"schema_version":"ATIF-v1.7","agent":{},"steps":[{}]}', "steps[0]"),
        ('{"schema_version":"ATIF-v1.7","agent":{},"steps":[],"x":NaN}', "NaN"),
        ('{"schema_version":"ATIF-v1.7","agent":{},"steps":[],"x":"\\ud800"}', "surrogate"),
        ('{"schema_version":"ATIF-v1.7","agent":{},"steps":[],"x":99999999999999999999}', "64"),
    ],
)
def test_a_file_that_is_no_atif_document_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    report = run_import("atif", [path], "acme", None, ImportOptions(dry_run=True))
    (failure,) = report.failures
    assert reason in failure.reason


def test_a_folder_of_atif_files_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(FULL))
    (tmp_path / "b.json").write_text('{"something": "else"}')
    report = run_import("atif", [tmp_path], "acme", None, ImportOptions(dry_run=True))
    assert (report.files, report.imported, report.failed, report.tool_calls) == (1, 2, 0, 2)
