"""The GenAI vocabulary of OpenTelemetry: spans and events with `gen_ai.*` attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atdp.adapters.documents.typed import (
    as_count,
    as_id,
    as_number,
    as_objects,
    as_text,
    without_none,
)
from atdp.adapters.otlp.attributes import plain_attributes, structured
from atdp.adapters.otlp.genai_messages import (
    SYSTEM_INSTRUCTIONS,
    content_text,
    content_value,
    read_instructions,
    read_messages,
    write_message,
    write_parts,
)
from atdp.adapters.otlp.genai_model_calls import read_generation, write_generation
from atdp.adapters.otlp.genai_retrieval import read_retrieval, write_retrieval
from atdp.adapters.otlp.vocabulary import Operation, OtlpRecordFacts
from atdp.schemas import (
    Action,
    Agent,
    Annotation,
    Body,
    Embedding,
    Error,
    Handoff,
    InternalState,
    MemoryOp,
    Message,
    Outcome,
    Part,
    Plan,
    Reward,
    ToolCall,
    Usage,
    canonical_json,
    parsed_json,
)

_MODEL_CALLS = {"chat", "generate_content", "text_completion"}
_MEMORY = {
    *("search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory"),
    *("create_memory_store", "delete_memory_store"),
}
_EVALUATION = "gen_ai.evaluation.result"


@dataclass(frozen=True, slots=True)
class GenAi:
    """The vocabulary of OpenTelemetry's GenAI semantic conventions."""

    format: str = "otel"

    def read(self, attributes: Mapping[str, Any], facts: OtlpRecordFacts) -> Operation:
        """See `Vocabulary.read`."""
        name = _operation_name(attributes)
        error = _read_error(attributes, facts)
        if facts.name == _EVALUATION:
            return Operation(body=_evaluation(attributes))
        if name in _MODEL_CALLS:
            return _model_call(attributes, error)
        if name == "execute_tool":
            return _tool_call(attributes, error)
        return Operation(body=_other(attributes, facts, error), usage=_read_usage(attributes))

    def write(self, operation: Operation) -> dict[str, Any]:
        """See `Vocabulary.write`."""
        body = operation.body
        error = body.error if isinstance(body, Action) else None
        if operation.outcome is not None:
            error = operation.outcome.error
        return {
            **_write_body(body),
            **_write_shown(operation),
            **_write_answers(operation),
            **_write_result(operation.outcome),
            **_write_usage(operation.usage),
            **_named("error.type", error.type if error else None),
        }

    def agent(self, attributes: Mapping[str, Any]) -> Agent | None:
        """See `Vocabulary.agent`."""
        name = as_id(attributes.get("gen_ai.agent.name") or attributes.get("gen_ai.agent.id"))
        if name is None:
            return None
        return Agent(id=name, version=as_text(attributes.get("gen_ai.agent.version")))

    def session(self, attributes: Mapping[str, Any]) -> str | None:
        """See `Vocabulary.session`."""
        return as_id(attributes.get("gen_ai.conversation.id"))

    def evaluations(self, record: Mapping[str, Any]) -> list[Reward]:
        """See `Vocabulary.evaluations`."""
        bodies = [
            _evaluation(plain_attributes(event.get("attributes")))
            for event in as_objects(record.get("events")) or []
            if event.get("name") == _EVALUATION
        ]
        return [body for body in bodies if isinstance(body, Reward)]


def _named(name: str, value: object) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _operation_name(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the operation, or the one that older instrumentations imply."""
    name = attributes.get("gen_ai.operation.name")
    if name is not None:
        return as_text(name)
    if as_text(attributes.get("gen_ai.tool.name")):
        return "execute_tool"
    return "chat" if as_text(attributes.get("gen_ai.response.model")) else None


def _read_error(attributes: Mapping[str, Any], facts: OtlpRecordFacts) -> Error | None:
    kind = as_text(attributes.get("error.type"))
    if kind is None and not facts.failed:
        return None
    return Error(type=kind or "unknown", message=facts.failure)


def _model_call(attributes: Mapping[str, Any], error: Error | None) -> Operation:
    instructions = read_instructions(structured(attributes.get("gen_ai.system_instructions")))
    messages = read_messages(structured(attributes.get("gen_ai.input.messages")))
    answers = read_messages(structured(attributes.get("gen_ai.output.messages"))) or (None,)
    shown = None
    if instructions is not None or messages is not None:
        shown = (*([instructions] if instructions else []), *(messages or ()))
    actions = [
        Action(
            type="generation",
            message=answer,
            generation=read_generation(attributes, index, len(answers)),
            error=error if index == 0 else None,
        )
        for index, answer in enumerate(answers)
    ]
    return Operation(
        body=actions[0],
        shown=shown,
        tools=as_objects(structured(attributes.get("gen_ai.tool.definitions"))),
        choices=tuple(actions[1:]),
        usage=_read_usage(attributes),
    )


def _tool_call(attributes: Mapping[str, Any], error: Error | None) -> Operation:
    call_id = as_text(attributes.get("gen_ai.tool.call.id"))
    name = as_text(attributes.get("gen_ai.tool.name"))
    arguments = attributes.get("gen_ai.tool.call.arguments")
    text = "" if arguments is None else content_text(arguments)
    call = ToolCall(
        call_id=call_id or "",
        name=name or "",
        arguments=text,
        arguments_json=parsed_json(text),
        tool_type=as_text(attributes.get("gen_ai.tool.type")),
    )
    outcome = None
    if (result := attributes.get("gen_ai.tool.call.result")) is not None or error is not None:
        part = Part(type="tool_result", text=content_text(result), call_id=call_id)
        outcome = Outcome(
            call_id=call_id,
            name=name,
            message=None if result is None else Message(role="tool", parts=(part,)),
            result="ok" if error is None else "error",
            error=error,
        )
    return Operation(body=Action(type="tool_call", tool_call=call), outcome=outcome)


def _other(attributes: Mapping[str, Any], facts: OtlpRecordFacts, error: Error | None) -> Body:
    name = attributes.get("gen_ai.operation.name")
    if name == "embeddings":
        formats = attributes.get("gen_ai.request.encoding_formats")
        embedding = Embedding(
            model=as_text(attributes.get("gen_ai.request.model")),
            dimensions=as_count(attributes.get("gen_ai.embeddings.dimension.count"), bits=32),
            encoding_format=as_text(formats[0]) if isinstance(formats, list) and formats else None,
        )
        return Action(type="embedding", embedding=embedding, error=error)
    if name == "retrieval":
        return Action(type="retrieval", retrieval=read_retrieval(attributes), error=error)
    if name == "plan":
        return Action(type="plan", plan=Plan(), error=error)
    if name in _MEMORY:
        operation = MemoryOp(op=str(name), key=as_text(attributes.get("gen_ai.memory.record.id")))
        return Action(type="memory_op", memory_op=operation, error=error)
    to = as_text(attributes.get("gen_ai.agent.name"))
    if name == "invoke_agent" and to and not facts.is_root:
        return Action(type="handoff", handoff=Handoff(to=to), error=error)
    return InternalState(type="other", text=facts.name)


def _evaluation(attributes: Mapping[str, Any]) -> Body:
    name = as_text(attributes.get("gen_ai.evaluation.name"))
    value = as_number(attributes.get("gen_ai.evaluation.score.value"))
    critique = as_text(attributes.get("gen_ai.evaluation.explanation"))
    label = as_text(attributes.get("gen_ai.evaluation.score.label"))
    if value is None and critique is None:
        return Annotation(
            name=name or "evaluation",
            value_json=None if label is None else canonical_json({"label": label}),
        )
    return Reward(
        value=value,
        critique=critique,
        label=label,
        dimension=name or "outcome",
        source_name="otel",
    )


def _write_body(body: Body) -> dict[str, Any]:
    match body:
        case Action(type="tool_call", tool_call=ToolCall() as call):
            return {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.call_id,
                "gen_ai.tool.call.arguments": content_value(call.arguments),
                **_named("gen_ai.tool.type", call.tool_type),
            }
        case Action(type="embedding", embedding=Embedding() as embedding):
            form = embedding.encoding_format
            return {
                "gen_ai.operation.name": "embeddings",
                **_named("gen_ai.request.model", embedding.model),
                **_named("gen_ai.embeddings.dimension.count", embedding.dimensions),
                **_named("gen_ai.request.encoding_formats", None if form is None else [form]),
            }
        case Action(type="retrieval", retrieval=retrieval) if retrieval is not None:
            return write_retrieval(retrieval)
        case Action(type="plan"):
            return {"gen_ai.operation.name": "plan"}
        case Action(type="memory_op", memory_op=MemoryOp() as operation):
            return {
                "gen_ai.operation.name": operation.op,
                **_named("gen_ai.memory.record.id", operation.key),
            }
        case Action(type="handoff", handoff=Handoff() as handoff):
            return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": handoff.to}
        case Reward() as reward:
            return {
                "gen_ai.evaluation.name": reward.dimension,
                **_named("gen_ai.evaluation.score.value", reward.value),
                **_named("gen_ai.evaluation.score.label", reward.label),
                **_named("gen_ai.evaluation.explanation", reward.critique),
            }
        case _:
            return {}


def _write_shown(operation: Operation) -> dict[str, Any]:
    tools = operation.tools
    written = {} if tools is None else {"gen_ai.tool.definitions": list(tools)}
    if operation.shown is None:
        return written
    messages: Sequence[Message] = operation.shown
    if messages and messages[0].ext_json == SYSTEM_INSTRUCTIONS:
        written["gen_ai.system_instructions"] = write_parts(messages[0].parts)
        messages = messages[1:]
    return {**written, "gen_ai.input.messages": [write_message(each) for each in messages]}


def _write_answers(operation: Operation) -> dict[str, Any]:
    answers = [operation.body, *operation.choices]
    actions = [each for each in answers if isinstance(each, Action) and each.generation is not None]
    if not actions or actions[0].generation is None:
        return {}
    reasons = [each.generation.finish_reason for each in actions if each.generation is not None]
    messages = [
        {**write_message(each.message), **without_none(finish_reason=reason)}
        for each, reason in zip(actions, reasons, strict=True)
        if each.message is not None
    ]
    return {
        "gen_ai.operation.name": "chat",
        **write_generation(actions[0].generation),
        **_named("gen_ai.output.messages", messages or None),
        **_named("gen_ai.response.finish_reasons", [each for each in reasons if each] or None),
    }


def _write_result(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None or outcome.message is None:
        return {}
    return {"gen_ai.tool.call.result": content_value(outcome.message.parts[0].text)}


_USAGE = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cached_input_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
}


def _read_usage(attributes: Mapping[str, Any]) -> Usage | None:
    usage = Usage(**{field: as_count(attributes.get(key)) for key, field in _USAGE.items()})
    return None if usage == Usage() else usage


def _write_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {key: getattr(usage, field) for key, field in _USAGE.items()}
    return {key: count for key, count in counts.items() if count is not None}
