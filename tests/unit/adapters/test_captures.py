"""Documents that real instrumentations sent become events and come back whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from atdp.adapters import ImportOptions, run_import
from atdp.adapters.otlp.records import merged
from atdp.schemas import Action, Event, InternalState, Outcome

from .round_trip import ATIF, OPENINFERENCE, OTEL, Converter, assert_comes_back

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.jsonl"))


def requests_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def format_of(path: Path) -> tuple[str, Converter]:
    if path.name.startswith("openinference"):
        return "openinference", OPENINFERENCE
    return "otel", OTEL


def generations(events: list[Event]) -> list[Action]:
    bodies = [event.body for event in events if isinstance(event.body, Action)]
    return [body for body in bodies if body.type == "generation"]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_each_request_and_all_of_them_together_come_back_whole(path: Path) -> None:
    requests = requests_of(path)
    for document in (*requests, merged(requests)):
        assert_comes_back(document, format_of(path)[1])


@pytest.mark.parametrize(
    ("name", "calls", "tools"),
    [
        ("genai_openai.traces", 4, 0),
        ("genai_openai_v2.traces", 4, 0),
        ("genai_openai_agents.traces", 0, 1),
        ("openinference_openai.traces", 4, 0),
        ("openinference_openai_agents.traces", 3, 2),
        ("openinference_langgraph.traces", 2, 1),
    ],
)
def test_every_model_call_and_tool_call_is_an_action(name: str, calls: int, tools: int) -> None:
    (path,) = [path for path in CAPTURES if path.stem == name]
    events = assert_comes_back(merged(requests_of(path)), format_of(path)[1])
    actions = [event.body for event in events if isinstance(event.body, Action)]
    assert len([each for each in actions if each.type == "tool_call"]) == tools
    first_choices = [
        each.generation
        for each in generations(events)
        if each.generation and each.generation.choice_index in {None, 0}
    ]
    assert len(first_choices) == calls


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_the_requests_of_a_file_are_imported_as_one_trajectory(path: Path) -> None:
    options = ImportOptions(dry_run=True)
    report = run_import(format_of(path)[0], [path], "acme", None, options)
    assert (report.imported, report.failed) == (1, 0)


def capture(name: str) -> list[Any]:
    return requests_of(Path(__file__).parent / "captures" / f"{name}.jsonl")


def records(requests: list[Any], noun: str) -> list[Any]:
    scopes, leaf = ("scopeSpans", "spans") if noun == "Spans" else ("scopeLogs", "logRecords")
    return [
        record
        for request in requests
        for block in request["resourceSpans" if noun == "Spans" else "resourceLogs"]
        for scope in block[scopes]
        for record in scope[leaf]
    ]


def test_a_call_that_span_and_event_tell_counts_once() -> None:
    spans, logs = capture("genai_openai.traces"), capture("genai_openai.logs")
    events = assert_comes_back(merged([*spans, *logs]), OTEL)
    alone = assert_comes_back(merged(spans), OTEL)
    assert len(generations(events)) == len(generations(alone))
    assert sum(event.usage is not None for event in events) == 4


def test_an_event_that_alone_has_the_messages_is_the_model_call() -> None:
    spans, logs = capture("genai_openai_v2.traces"), capture("genai_openai.logs")
    ids = [span["spanId"] for span in records(spans, "Spans") if span["name"].startswith("chat")]
    trace = records(spans, "Spans")[0]["traceId"]
    for record, span_id in zip(records(logs, "LogRecords"), ids, strict=True):
        record.update(traceId=trace, spanId=span_id)
    events = assert_comes_back(merged([*spans, *logs]), OTEL)
    calls = [event for event in events if event.body in generations(events)]
    assert {call.source_step_id.split("/")[0] for call in calls if call.source_step_id} == {
        "resourceLogs"
    }


def test_a_history_is_not_kept_a_second_time() -> None:
    """The texts stand in the fields; `ext_json` holds the spelling alone."""
    for name in ("genai_openai.traces", "genai_openai.logs", "openinference_openai.traces"):
        converter = OPENINFERENCE if name.startswith("openinference") else OTEL
        for event in assert_comes_back(merged(capture(name)), converter):
            kept = json.loads(event.ext_json or "{}")
            assert not kept.get("raw")
            rests = [rest for key, rest in kept.get("attributes", {}).items() if "messages" in key]
            assert "Zürich" not in json.dumps(rests, ensure_ascii=False)


def test_a_document_of_another_writer_of_atif_comes_back_whole_with_its_sub_agent() -> None:
    path = Path(__file__).parent / "captures" / "nat_subagent.atif.json"
    events = assert_comes_back(json.loads(path.read_text("utf-8")), ATIF)
    (sub_agent,) = {event.parent_trajectory_id for event in events} - {None}
    assert len(generations(events)) == 3
    assert sub_agent == events[0].trajectory_id
    (outcome,) = [event.body for event in events if isinstance(event.body, Outcome)]
    assert outcome.subagent_trajectory_id in {event.trajectory_id for event in events}


def test_an_event_without_a_time_has_the_time_of_its_observation() -> None:
    events = assert_comes_back(merged(capture("genai_openai_v2.logs")), OTEL)
    said = [event for event in events if isinstance(event.body, InternalState)]
    assert all(event.occurred_at is not None for event in said)
    times = [(event.occurred_at, event.occurred_at_nanos) for event in said]
    assert times == sorted(times)
