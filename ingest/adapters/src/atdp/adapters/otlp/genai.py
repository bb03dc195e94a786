"""The GenAI vocabulary of OpenTelemetry: spans and events with `gen_ai.*` attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atdp.adapters.documents.typed import (
    as_count,
    as_id,
    as_objects,
    as_text,
    without_none,
)
from atdp.adapters.otlp.attributes import plain_attributes, structured
from atdp.adapters.otlp.genai_actions import (
    given,
    read_evaluation,
    read_other,
    read_tool_call,
    write_body,
    write_result,
)
from atdp.adapters.otlp.genai_messages import (
    SYSTEM_INSTRUCTIONS,
    read_instructions,
    read_messages,
    write_message,
    write_parts,
)
from atdp.adapters.otlp.genai_model_calls import read_generation, write_generation
from atdp.adapters.otlp.vocabulary import Operation, OtlpRecordFacts
from atdp.schemas import (
    Action,
    Agent,
    Error,
    Message,
    Reward,
    Usage,
)

_MODEL_CALLS = {"chat", "generate_content", "text_completion"}
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
            return Operation(body=read_evaluation(attributes))
        if name in _MODEL_CALLS:
            return _model_call(attributes, error)
        if name == "execute_tool":
            return read_tool_call(attributes, error)
        # The span of an agent repeats the sum of its model calls, which must not count twice.
        usage = _read_usage(attributes) if name == "embeddings" else None
        return Operation(body=read_other(attributes, facts, error), usage=usage)

    def write(self, operation: Operation) -> dict[str, Any]:
        """See `Vocabulary.write`."""
        body = operation.body
        error = body.error if isinstance(body, Action) else None
        if operation.outcome is not None:
            error = operation.outcome.error
        return {
            **write_body(body),
            **_write_shown(operation),
            **_write_answers(operation),
            **write_result(operation.outcome),
            **_write_usage(operation.usage),
            **given("error.type", error.type if error else None),
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
            read_evaluation(plain_attributes(event.get("attributes")))
            for event in as_objects(record.get("events")) or []
            if event.get("name") == _EVALUATION
        ]
        return [body for body in bodies if isinstance(body, Reward)]


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
        **given("gen_ai.output.messages", messages or None),
        **given("gen_ai.response.finish_reasons", [each for each in reasons if each] or None),
    }


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
