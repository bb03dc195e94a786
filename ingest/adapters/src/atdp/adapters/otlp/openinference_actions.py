"""Tool calls and the other spans of the OpenInference vocabulary, but model calls."""

from collections.abc import Mapping
from typing import Any

from atdp.adapters.documents.typed import as_count, as_number, as_text
from atdp.adapters.otlp.openinference_messages import flattened, indexed
from atdp.adapters.otlp.vocabulary import Operation, OtlpRecordFacts
from atdp.schemas import (
    Action,
    Body,
    Document,
    Embedding,
    Error,
    Guardrail,
    Handoff,
    InternalState,
    Message,
    Outcome,
    Part,
    Retrieval,
    ToolCall,
    parsed_json,
)

KIND = "openinference.span.kind"


def read_tool_call(
    attributes: Mapping[str, Any], facts: OtlpRecordFacts, error: Error | None
) -> Operation:
    """Return the operation of a tool call, with its outcome if there is one."""
    call_id = as_text(attributes.get("tool.id"))
    name = as_text(attributes.get("tool.name"))
    arguments = as_text(attributes.get("input.value")) or ""
    call = ToolCall(
        call_id=call_id or "",
        name=name or facts.name,
        arguments=arguments,
        arguments_json=parsed_json(arguments),
    )
    result = as_text(attributes.get("output.value"))
    outcome = None
    if result is not None or error is not None:
        part = Part(type="text", text=result)
        message = Message(role="tool", parts=(part,), call_id=call_id)
        outcome = Outcome(
            call_id=call_id,
            name=name,
            message=None if result is None else message,
            result="ok" if error is None else "error",
            error=error,
        )
    return Operation(body=Action(type="tool_call", tool_call=call), outcome=outcome)


def read_other(attributes: Mapping[str, Any], facts: OtlpRecordFacts, error: Error | None) -> Body:
    """Return the body of a span that is no model call and no tool call."""
    query = as_text(attributes.get("input.value"))
    match attributes.get(KIND):
        case "RETRIEVER":
            found = Retrieval(
                query=query, documents=_read_documents(attributes, "retrieval.documents")
            )
            return Action(type="retrieval", retrieval=found, error=error)
        case "RERANKER":
            ranked = Retrieval(
                query=as_text(attributes.get("reranker.query")),
                index=as_text(attributes.get("reranker.model_name")),
                top_k=as_count(attributes.get("reranker.top_k"), bits=32),
                documents=_read_documents(attributes, "reranker.output_documents"),
            )
            return Action(type="retrieval", retrieval=ranked, error=error)
        case "EMBEDDING":
            vectors = indexed(attributes, "embedding.embeddings")
            embedding = Embedding(
                model=as_text(attributes.get("embedding.model_name")),
                input_count=None if vectors is None else len(vectors),
            )
            return Action(type="embedding", embedding=embedding, error=error)
        case "GUARDRAIL":
            return Action(type="guardrail", guardrail=Guardrail(name=facts.name), error=error)
        case "AGENT" if not facts.is_root:
            to = as_text(attributes.get("agent.name")) or facts.name
            return Action(type="handoff", handoff=Handoff(to=to), error=error)
        case _:
            return InternalState(type="other", text=facts.name)


def _read_documents(attributes: Mapping[str, Any], prefix: str) -> tuple[Document, ...]:
    return tuple(
        Document(
            id=as_text(entry.get("document.id")),
            uri=as_text(entry.get("document.url")),
            score=as_number(entry.get("document.score")),
            text=as_text(entry.get("document.content")),
        )
        for entry in indexed(attributes, prefix) or []
    )


def _write_documents(prefix: str, documents: tuple[Document, ...]) -> dict[str, Any]:
    entries = [
        {
            "document.id": each.id,
            "document.content": each.text,
            "document.score": each.score,
            "document.url": each.uri,
        }
        for each in documents
    ]
    return flattened(prefix, [given(entry) for entry in entries])


def write_body(body: Body) -> dict[str, Any]:
    """Return the attributes that a body's own fields say; none for a model call."""
    match body:
        case Action(type="tool_call", tool_call=ToolCall() as call):
            return {
                KIND: "TOOL",
                "tool.name": call.name,
                "tool.id": call.call_id,
                "input.value": call.arguments,
            }
        case Action(type="retrieval", retrieval=Retrieval() as retrieval):
            return _write_retrieval(retrieval)
        case Action(type="embedding", embedding=Embedding() as embedding):
            return given({KIND: "EMBEDDING", "embedding.model_name": embedding.model})
        case Action(type="guardrail"):
            return {KIND: "GUARDRAIL"}
        case Action(type="handoff", handoff=Handoff() as handoff):
            return {KIND: "AGENT", "agent.name": handoff.to}
        case _:
            return {}


def _write_retrieval(retrieval: Retrieval) -> dict[str, Any]:
    """Return the attributes of a search, or of a reranker, which names its model as the index."""
    documents = retrieval.documents
    if retrieval.index is None and retrieval.top_k is None:
        found = _write_documents("retrieval.documents", documents)
        return given({KIND: "RETRIEVER", "input.value": retrieval.query, **found})
    ranked = {
        KIND: "RERANKER",
        "reranker.query": retrieval.query,
        "reranker.model_name": retrieval.index,
        "reranker.top_k": retrieval.top_k,
    }
    return given({**ranked, **_write_documents("reranker.output_documents", documents)})


def given(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes whose value is not None."""
    return {key: value for key, value in entries.items() if value is not None}
