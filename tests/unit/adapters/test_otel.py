"""OTLP documents with GenAI attributes become events and come back whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from atdp.adapters import (
    ImportOptions,
    events_from_otel,
    run_import,
)
from atdp.adapters.otlp.attributes import keep_attributes, write_attributes
from atdp.schemas import Action, Observation, Reward, fold_context

from .otlp_documents import START, TRACE, attributes, document, from_langfuse, span
from .real_documents import LANGFUSE
from .round_trip import OTEL, assert_comes_back, assert_odd_values_come_back

ASKED = [
    {"role": "user", "parts": [{"type": "text", "content": "Weather?"}], "name": "ann"},
]
CALLED = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "Look it up."},
        {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"z": 1, "a": None}},
        {"type": "server_tool_call", "id": "s", "name": "web", "server_tool_call": {"type": "w"}},
        {"type": "compaction", "id": "k", "content": "so far"},
    ],
}
RESULT = {
    "role": "tool",
    "parts": [
        {"type": "tool_call_response", "id": "c1", "response": {"t": 57}},
        {"type": "tool_call_response", "id": "c2", "result": "rainy"},
        {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "gs://a/b.png"},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "AAAA"},
        {"type": "file", "modality": "document", "file_id": "f-1"},
        {"type": "odd", "x": [1, {"y": None}]},
    ],
}
TOOLS = [{"type": "function", "name": "weather", "parameters": {"type": "object", "a": 1}}]
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.conversation.id": "conv-1",
    "gen_ai.agent.id": "a-1",
    "gen_ai.agent.name": "clerk",
    "gen_ai.agent.version": "2",
    "gen_ai.agent.description": "answers",
    "gen_ai.request.model": "m",
    "gen_ai.request.max_tokens": 1 << 33,
    "gen_ai.request.choice.count": 2,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.top_p": 1.0,
    "gen_ai.request.top_k": 40.0,
    "gen_ai.request.stop_sequences": ["END"],
    "gen_ai.request.frequency_penalty": 0.1,
    "gen_ai.request.presence_penalty": 0.2,
    "gen_ai.request.seed": 7,
    "gen_ai.request.stream": True,
    "gen_ai.response.id": "resp-1",
    "gen_ai.response.model": "m-2026",
    "gen_ai.response.finish_reasons": ["tool_call", "stop"],
    "gen_ai.response.time_to_first_chunk": 0.25,
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.usage.cache_read.input_tokens": 4,
    "gen_ai.usage.cache_creation.input_tokens": 3,
    "gen_ai.usage.reasoning.output_tokens": 2,
    "gen_ai.usage.text.input_tokens": 9,
    "gen_ai.output.type": "text",
    "gen_ai.prompt.name": "greeting",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.tool.definitions": json.dumps(TOOLS),
    "gen_ai.input.messages": json.dumps(ASKED),
    "gen_ai.output.messages": json.dumps(
        [
            {**CALLED, "finish_reason": "tool_call"},
            {"role": "assistant", "parts": [{"type": "text", "content": "é"}]},
        ]
    ),
    "openai.request.service_tier": "auto",
    "server.port": 443,
}
SECOND = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
    "gen_ai.tool.definitions": TOOLS,
    "gen_ai.input.messages": [*ASKED, CALLED, RESULT],
}
SPANS = [
    span(1, "invoke_agent clerk", {"gen_ai.operation.name": "invoke_agent"}, traceState="a=1"),
    span(2, "chat m", CALL, events=[{"name": "x", "timeUnixNano": "1", "attributes": []}]),
    span(
        3,
        "execute_tool weather",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": "tells it",
            "gen_ai.tool.call.arguments": '{"city": "Paris"}',
            "gen_ai.tool.call.result": {"t": 57},
        },
    ),
    span(
        4,
        "execute_tool broken",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "broken",
            "error.type": "timeout",
        },
        status={"code": 2, "message": "too slow"},
    ),
    span(5, "chat m", SECOND, status={}, links=[{"traceId": TRACE, "spanId": "b" * 16}], flags=257),
    span(
        6,
        "embeddings e",
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.request.model": "e",
            "gen_ai.request.encoding_formats": ["float"],
            "gen_ai.embeddings.dimension.count": 512,
            "gen_ai.usage.input_tokens": 3,
        },
    ),
    span(
        7,
        "retrieval d",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "d",
            "gen_ai.request.top_k": 3.0,
            "gen_ai.retrieval.query.text": "q",
            "gen_ai.retrieval.documents": [
                {"id": "1", "score": 0.5, "content": "text", "title": "T"},
                {"id": "2"},
            ],
        },
    ),
    span(8, "plan", {"gen_ai.operation.name": "plan"}),
    span(
        9,
        "search_memory s",
        {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.store.id": "s",
            "gen_ai.memory.record.id": "r",
            "gen_ai.memory.record.count": 1,
            "gen_ai.memory.query.text": "q",
            "gen_ai.memory.records": [{"content": "likes tea", "id": "r", "score": 0.9}],
        },
    ),
    span(
        10,
        "invoke_agent helper",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "helper",
        },
    ),
    span(
        11,
        "invoke_workflow w",
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "w",
        },
    ),
    span(12, "GET", {"http.request.method": "GET"}, droppedAttributesCount=2),
]
LOGS: list[dict[str, Any]] = [
    {
        "timeUnixNano": str(START + 2_000),
        "observedTimeUnixNano": "5",
        "severityNumber": 9,
        "eventName": "gen_ai.evaluation.result",
        "traceId": TRACE,
        "spanId": f"{2:016x}",
        "attributes": attributes(
            {
                "gen_ai.evaluation.name": "Relevance",
                "gen_ai.evaluation.score.value": 0.75,
                "gen_ai.evaluation.score.label": "relevant",
                "gen_ai.evaluation.explanation": "on topic",
                "gen_ai.response.id": "resp-1",
            }
        ),
        "body": {"stringValue": "free text"},
    },
    {
        "timeUnixNano": str(START + 3_000),
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": attributes(SECOND),
        "traceId": TRACE,
    },
]
FULL = document(SPANS, LOGS)


def test_a_document_with_every_attribute_comes_back_whole() -> None:
    assert_comes_back(FULL, OTEL)


@pytest.mark.skipif(not LANGFUSE, reason="the real traces are not at hand")
@pytest.mark.parametrize("path", LANGFUSE, ids=lambda path: path.stem)
def test_a_real_trace_comes_back_whole(path: Path) -> None:
    trace = json.loads(path.read_text("utf-8"))
    content = ("gen_ai.input.messages", "gen_ai.output.messages")
    assert_comes_back(from_langfuse(trace, content=content), OTEL)


def test_a_document_with_an_odd_value_comes_back_whole_or_is_refused() -> None:
    single = [document([each]) for each in SPANS]
    assert_odd_values_come_back([FULL, *single, *(document([], [log]) for log in LOGS)], OTEL)


def test_a_changed_order_of_attributes_in_the_governed_events_does_not_stop_the_export() -> None:
    entries = attributes({"b": 1, "gen_ai.operation.name": "plan", "a": 2})
    kept = keep_attributes({"gen_ai.operation.name": "plan"}, entries)
    kept["order"] = ["[REDACTED]", *kept["order"][1:]]
    written = write_attributes({"gen_ai.operation.name": "plan"}, kept)
    assert [each["key"] for each in written] == ["gen_ai.operation.name", "a", "b"]


@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000])
def test_a_number_with_too_many_digits_is_kept_and_not_read(digits: str) -> None:
    plain = {"gen_ai.operation.name": "chat", "gen_ai.input.messages." + digits: 1}
    made = span(1, "chat", plain, startTimeUnixNano=digits)
    made["attributes"].append(
        {"key": "gen_ai.request.max_tokens", "value": {"intValue": digits}},
    )
    assert_comes_back(document([made]), OTEL)


def test_half_a_surrogate_pair_in_json_text_refuses_no_trace() -> None:
    for key in ("custom", "gen_ai.input.messages", "gen_ai.tool.definitions"):
        text = '[{"name": "\\ud800", "role": "user", "parts": []}]'
        call = {"gen_ai.operation.name": "chat", key: text}
        assert_comes_back(document([span(1, "chat", call)]), OTEL)


@pytest.mark.parametrize("nanos", ["253402300799000000001", "1000000001", "4102444800000000000"])
def test_a_time_that_is_a_placeholder_is_unknown_and_comes_back(nanos: str) -> None:
    call = {"gen_ai.operation.name": "chat"}
    times = {"startTimeUnixNano": nanos, "endTimeUnixNano": nanos}
    events = assert_comes_back(document([span(1, "chat", call, **times)]), OTEL)
    assert {event.occurred_at for event in events} == {None}


def bodies(kind: str) -> list[Action]:
    found = [event.body for event in events_from_otel(FULL, "acme")]
    return [body for body in found if isinstance(body, Action) and body.type == kind]


def test_each_operation_is_an_action_of_its_kind() -> None:
    counts = {
        kind: len(bodies(kind))
        for kind in ("generation", "tool_call", "embedding", "retrieval", "plan", "memory_op")
    }
    assert counts == {
        "generation": 4,
        "tool_call": 2,
        "embedding": 1,
        "retrieval": 1,
        "plan": 1,
        "memory_op": 1,
    }
    assert [body.handoff.to for body in bodies("handoff") if body.handoff] == ["helper"]


def test_a_model_call_has_its_parameters_in_named_fields() -> None:
    first, second, *_ = bodies("generation")
    assert first.generation is not None
    assert second.generation is not None
    assert first.generation.sampling is not None
    assert first.generation.sampling.max_tokens == 1 << 33
    assert first.generation.time_to_first_token_us == 250_000
    assert [first.generation.choice_index, second.generation.choice_index] == [0, 1]
    assert [first.generation.finish_reason, second.generation.finish_reason] == [
        "tool_call",
        "stop",
    ]


def test_nanoseconds_survive_in_the_events() -> None:
    events = [event for event in events_from_otel(FULL, "acme") if event.span_id == f"{1:016x}"]
    assert [(event.occurred_at_nanos, event.ended_at_nanos) for event in events] == [(790, 791)]


def test_messages_that_were_shown_before_are_not_repeated() -> None:
    events = events_from_otel(FULL, "acme")
    observed = [event.body for event in events if isinstance(event.body, Observation)]
    assert [len(body.messages) for body in observed[:2]] == [2, 1]
    assert observed[1].tools_json is None
    assert observed[1].tools_hash == observed[0].tools_hash


def test_the_context_at_a_call_is_what_the_span_says() -> None:
    events = events_from_otel(FULL, "acme")
    second = [event.seq for event in events if event.kind == "observation"][1]
    context = fold_context(events[: second + 1])
    assert [message.role for message in context] == ["system", "user", "assistant", "tool"]


def test_an_evaluation_is_a_reward_of_the_span_that_it_names() -> None:
    events = events_from_otel(FULL, "acme")
    (reward,) = [event.body for event in events if isinstance(event.body, Reward)]
    (target,) = [event for event in events if event.event_id == reward.target_event_id]
    assert (reward.value, reward.label, reward.critique) == (0.75, "relevant", "on topic")
    assert target.span_id == f"{2:016x}"


def test_spans_know_their_parents() -> None:
    events = events_from_otel(FULL, "acme")
    root = next(event for event in events if event.span_id == f"{1:016x}")
    child = next(event for event in events if event.span_id == f"{6:016x}")
    assert child.parent_event_id == root.event_id
    assert (child.trace_id, child.parent_span_id) == (TRACE, root.span_id)


def test_two_traces_are_two_trajectories_of_one_document() -> None:
    other = {**SPANS[11], "traceId": "f" * 32}
    events = assert_comes_back(document([*SPANS[:3], other]), OTEL)
    assert len({event.trajectory_id for event in events}) == 2


@pytest.mark.parametrize("text", ["[]", '{"resourceSpans":[]}', '{"resourceSpans":[{}'])
def test_a_file_without_records_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    report = run_import("otel", [path], "acme", None, ImportOptions(dry_run=True))
    assert (report.imported, report.failed) == (0, 1)


def test_a_folder_of_otlp_files_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(FULL))
    report = run_import("otel", [tmp_path], "acme", None, ImportOptions(dry_run=True))
    assert (report.imported, report.failed, report.tool_calls, report.rewards) == (1, 0, 2, 1)
