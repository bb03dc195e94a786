"""OTLP documents with OpenInference attributes become events and come back whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from atdp.adapters import (
    ImportOptions,
    events_from_openinference,
    run_import,
)
from atdp.schemas import Action, Observation, Outcome, Reward

from .otlp_documents import document, from_langfuse, span
from .real_documents import LANGFUSE
from .round_trip import OPENINFERENCE, assert_comes_back, assert_odd_values_come_back

CALL: dict[str, Any] = {
    "openinference.span.kind": "LLM",
    "session.id": "s-1",
    "user.id": "u-1",
    "agent.name": "clerk",
    "metadata": '{"a": 1}',
    "tag.tags": ["x"],
    "llm.model_name": "m",
    "llm.request.model_name": "m",
    "llm.response.model_name": "m-2026",
    "llm.provider": "openai",
    "llm.system": "openai",
    "llm.finish_reason": "tool_calls",
    "llm.invocation_parameters": '{"temperature": 0.5, "max_tokens": 9, "n": 2, "stop": ["END"]}',
    "llm.prompt_template.template": "{x}",
    "llm.token_count.prompt": 10,
    "llm.token_count.completion": 5,
    "llm.token_count.total": 15,
    "llm.token_count.prompt_details.cache_read": 4,
    "llm.token_count.prompt_details.cache_write": 3,
    "llm.token_count.completion_details.reasoning": 2,
    "llm.token_count.completion_details.audio": 1,
    "llm.cost.total": 0.25,
    "llm.cost.prompt": 0.125,
    "llm.tools.0.tool.json_schema": '{"type": "function", "a": {"z": 1, "b": 2}}',
    "llm.tools.1.tool.json_schema": '{"type":"function"}',
    "llm.tools.1.tool.name": "second",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.name": "ann",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "See",
    "llm.input_messages.1.message.contents.1.message_content.type": "image",
    "llm.input_messages.1.message.contents.1.message_content.image.image.url": "http://a/b.png",
    "llm.input_messages.1.message.contents.2.message_content.type": "audio",
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.url": "a.wav",
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.mime_type": "audio/wav",
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.transcript": "hm",
    "llm.input_messages.2.message.role": "tool",
    "llm.input_messages.2.message.tool_call_id": "c0",
    "llm.input_messages.2.message.content": "old",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.contents.0.message_content.type": "reasoning",
    "llm.output_messages.0.message.contents.0.message_content.text": "Look it up.",
    "llm.output_messages.0.message.contents.0.message_content.signature": "sig",
    "llm.output_messages.0.message.contents.0.message_content.id": "rs_1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
    "llm.output_messages.1.message.role": "assistant",
    "llm.output_messages.1.message.content": "é",
    "llm.output_messages.1.message.function_call_name": "legacy",
    "input.value": "raw request",
    "input.mime_type": "text/plain",
    "output.value": "raw answer",
    "evaluations.0.evaluation.name": "relevance",
    "evaluations.0.evaluation.score": 0.75,
    "evaluations.0.evaluation.label": "relevant",
    "evaluations.0.evaluation.explanation": "on topic",
    "evaluations.0.evaluation.annotator_kind": "LLM",
    "annotations.0.annotation.name": "flag",
    "annotations.0.annotation.label": "seen",
}
SPANS = [
    span(1, "agent run", {"openinference.span.kind": "AGENT", "graph.node.id": "n"}),
    span(2, "llm", CALL),
    span(
        3,
        "weather",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "weather",
            "tool.id": "c1",
            "tool.description": "tells it",
            "tool.parameters": '{"city": "string"}',
            "input.value": '{"city": "Paris"}',
            "input.mime_type": "application/json",
            "output.value": "57",
        },
    ),
    span(
        4,
        "broken",
        {"openinference.span.kind": "TOOL", "tool.name": "broken"},
        status={"code": 2, "message": "too slow"},
    ),
    span(
        5,
        "retriever",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "q",
            "retrieval.documents.0.document.id": "1",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.0.document.content": "text",
            "retrieval.documents.0.document.metadata": '{"t": 1}',
            "retrieval.documents.1.document.url": "http://a",
        },
    ),
    span(
        6,
        "reranker",
        {
            "openinference.span.kind": "RERANKER",
            "reranker.query": "q",
            "reranker.model_name": "rank",
            "reranker.top_k": 1,
            "reranker.input_documents.0.document.id": "1",
            "reranker.output_documents.0.document.id": "1",
        },
    ),
    span(
        7,
        "embed",
        {
            "openinference.span.kind": "EMBEDDING",
            "embedding.model_name": "e",
            "embedding.embeddings.0.embedding.text": "a",
            "embedding.embeddings.0.embedding.vector": [0.5, 1.5],
        },
    ),
    span(8, "guard", {"openinference.span.kind": "GUARDRAIL", "input.value": "x"}),
    span(9, "helper", {"openinference.span.kind": "AGENT", "agent.name": "helper"}),
    span(10, "chain", {"openinference.span.kind": "CHAIN"}),
    span(11, "decide", {"openinference.span.kind": "DECISION", "decision.model_name": "d"}),
]
FULL = document(SPANS)


def test_a_document_with_every_attribute_comes_back_whole() -> None:
    assert_comes_back(FULL, OPENINFERENCE)


@pytest.mark.skipif(not LANGFUSE, reason="the real traces are not at hand")
@pytest.mark.parametrize("path", LANGFUSE, ids=lambda path: path.stem)
def test_a_real_trace_comes_back_whole(path: Path) -> None:
    assert_comes_back(
        from_langfuse(json.loads(path.read_text("utf-8")), content=None), OPENINFERENCE
    )


def test_a_document_with_an_odd_value_comes_back_whole_or_is_refused() -> None:
    single = [document([each]) for each in SPANS]
    assert_odd_values_come_back([FULL, *single], OPENINFERENCE)


def test_tool_calls_that_are_numbered_from_one_are_read() -> None:
    call = "llm.output_messages.0.message.tool_calls.1.tool_call"
    plain = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        f"{call}.id": "c1",
        f"{call}.function.name": "weather",
        f"llm.output_messages.{'9' * 5000}.message.role": "assistant",
    }
    (action,) = [
        event.body
        for event in assert_comes_back(document([span(1, "llm", plain)]), OPENINFERENCE)
        if isinstance(event.body, Action)
    ]
    assert action.message is not None
    assert [part.call_id for part in action.message.parts] == ["c1"]


def actions() -> list[Action]:
    bodies = [event.body for event in events_from_openinference(FULL, "acme")]
    return [body for body in bodies if isinstance(body, Action)]


def test_each_kind_of_span_is_an_action_of_its_type() -> None:
    assert [action.type for action in actions()] == [
        *("generation", "generation", "tool_call", "tool_call", "retrieval", "retrieval"),
        *("embedding", "guardrail", "handoff"),
    ]


def test_a_model_call_has_its_messages_parameters_and_counts_in_named_fields() -> None:
    events = events_from_openinference(FULL, "acme")
    (shown,) = [event.body for event in events if isinstance(event.body, Observation)]
    assert [message.role for message in shown.messages] == ["system", "user", "tool"]
    assert [part.type for part in shown.messages[1].parts] == ["text", "image", "audio"]
    (call, *_) = [event for event in events if event.kind == "action"]
    assert isinstance(call.body, Action)
    assert call.body.generation is not None
    assert call.body.generation.sampling is not None
    assert call.body.generation.sampling.max_tokens == 9
    assert call.usage is not None
    assert call.usage.cache_write_tokens == 3
    assert call.cost is not None
    assert call.cost.amount == 0.25


def test_a_tool_span_is_a_call_with_its_outcome() -> None:
    events = events_from_openinference(FULL, "acme")
    outcomes = [event.body for event in events if isinstance(event.body, Outcome)]
    assert [(outcome.result, outcome.error is None) for outcome in outcomes] == [
        ("ok", True),
        ("error", False),
    ]


def test_an_evaluation_with_a_score_is_a_reward() -> None:
    events = events_from_openinference(FULL, "acme")
    (reward,) = [event.body for event in events if isinstance(event.body, Reward)]
    assert (reward.value, reward.label, reward.source_name) == (0.75, "relevant", "LLM")
    assert reward.target_kind == "event"


def test_a_file_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(FULL))
    report = run_import("openinference", [tmp_path], "acme", None, ImportOptions(dry_run=True))
    assert (report.imported, report.failed, report.tool_calls) == (1, 0, 2)
