"""The OpenInference vocabulary: spans with a kind and flattened attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atdp.adapters.documents.typed import as_count, as_id, as_number, as_object, as_text
from atdp.adapters.otlp.attributes import plain_attributes, structured
from atdp.adapters.otlp.openinference_actions import (
    KIND,
    given,
    read_other,
    read_tool_call,
    write_body,
)
from atdp.adapters.otlp.openinference_messages import (
    flattened,
    indexed,
    read_messages,
    write_messages,
)
from atdp.adapters.otlp.vocabulary import Operation, OtlpRecordFacts
from atdp.schemas import (
    Action,
    Agent,
    Cost,
    Error,
    Generation,
    Reward,
    Sampling,
    Usage,
)

_USAGE = {
    "llm.token_count.prompt": "input_tokens",
    "llm.token_count.completion": "output_tokens",
    "llm.token_count.prompt_details.cache_read": "cached_input_tokens",
    "llm.token_count.prompt_details.cache_write": "cache_write_tokens",
    "llm.token_count.completion_details.reasoning": "reasoning_tokens",
}


@dataclass(frozen=True, slots=True)
class OpenInference:
    """The vocabulary of OpenInference's semantic conventions."""

    format: str = "openinference"

    def read(self, attributes: Mapping[str, Any], facts: OtlpRecordFacts) -> Operation:
        """See `Vocabulary.read`."""
        error = Error(type="unknown", message=facts.failure) if facts.failed else None
        match attributes.get(KIND):
            case "LLM":
                return _model_call(attributes, error)
            case "TOOL":
                return read_tool_call(attributes, facts, error)
            case "EMBEDDING":
                usage = _read_usage(attributes)
                return Operation(body=read_other(attributes, facts, error), usage=usage)
            case _:
                return Operation(body=read_other(attributes, facts, error))

    def write(self, operation: Operation) -> dict[str, Any]:
        """See `Vocabulary.write`."""
        written = {
            **write_body(operation.body),
            **_write_answers(operation),
            **_write_usage(operation.usage),
        }
        if operation.shown is not None:
            written.update(write_messages("llm.input_messages", operation.shown))
        if operation.tools is not None:
            tools = [{"tool.json_schema": tool} for tool in operation.tools]
            written.update(flattened("llm.tools", tools))
        if operation.cost is not None:
            written["llm.cost.total"] = operation.cost.amount
        if operation.outcome is not None and operation.outcome.message is not None:
            written["output.value"] = operation.outcome.message.parts[0].text
        return written

    def agent(self, attributes: Mapping[str, Any]) -> Agent | None:
        """See `Vocabulary.agent`."""
        name = as_id(attributes.get("agent.name"))
        return None if name is None else Agent(id=name)

    def session(self, attributes: Mapping[str, Any]) -> str | None:
        """See `Vocabulary.session`."""
        return as_id(attributes.get("session.id"))

    def evaluations(self, record: Mapping[str, Any]) -> list[Reward]:
        """Return the scores of a span's evaluations and annotations."""
        attributes = _plain(record)
        found = []
        for prefix, noun in (("evaluations", "evaluation"), ("annotations", "annotation")):
            for entry in indexed(attributes, prefix) or []:
                value = as_number(entry.get(f"{noun}.score"))
                critique = as_text(entry.get(f"{noun}.explanation"))
                if value is None and critique is None:
                    continue
                found.append(
                    Reward(
                        value=value,
                        critique=critique,
                        label=as_text(entry.get(f"{noun}.label")),
                        dimension=as_text(entry.get(f"{noun}.name")) or "outcome",
                        source_name=as_text(entry.get(f"{noun}.annotator_kind")) or "openinference",
                    )
                )
        return found


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return plain_attributes(record.get("attributes"))


def _model_call(attributes: Mapping[str, Any], error: Error | None) -> Operation:
    answers = read_messages(attributes, "llm.output_messages") or (None,)
    model = attributes.get("llm.request.model_name", attributes.get("llm.model_name"))
    generation = Generation(
        model=as_text(model),
        served_model=as_text(attributes.get("llm.response.model_name")),
        provider=as_text(attributes.get("llm.provider")),
        finish_reason=as_text(attributes.get("llm.finish_reason")),
        sampling=_read_sampling(attributes),
        choice_index=0 if len(answers) > 1 else None,
    )
    return Operation(
        body=Action(type="generation", message=answers[0], generation=generation, error=error),
        shown=read_messages(attributes, "llm.input_messages"),
        tools=_read_tools(attributes),
        choices=tuple(
            Action(type="generation", message=answer, generation=Generation(choice_index=index))
            for index, answer in enumerate(answers[1:], start=1)
        ),
        usage=_read_usage(attributes),
        cost=_read_cost(attributes),
    )


def _read_sampling(attributes: Mapping[str, Any]) -> Sampling | None:
    """Return the sampling that `llm.invocation_parameters` holds, which stays in `ext_json`."""
    given = as_object(structured(attributes.get("llm.invocation_parameters")))
    limit = given.get("max_tokens", given.get("max_completion_tokens"))
    stop = given.get("stop")
    texts = isinstance(stop, list) and all(isinstance(each, str) for each in stop)
    sampling = Sampling(
        temperature=as_number(given.get("temperature")),
        top_p=as_number(given.get("top_p")),
        top_k=as_count(given.get("top_k"), bits=32),
        max_tokens=as_count(limit),
        seed=as_count(given.get("seed")),
        frequency_penalty=as_number(given.get("frequency_penalty")),
        presence_penalty=as_number(given.get("presence_penalty")),
        stop=tuple(stop) if texts else (),  # type: ignore[arg-type]  # texts: a list
        choices=as_count(given.get("n"), bits=32),
    )
    return None if sampling == Sampling() else sampling


def _read_tools(attributes: Mapping[str, Any]) -> list[Any] | None:
    entries = indexed(attributes, "llm.tools")
    if entries is None:
        return None
    return [structured(entry.get("tool.json_schema")) for entry in entries]


def _read_usage(attributes: Mapping[str, Any]) -> Usage | None:
    usage = Usage(**{field: as_count(attributes.get(key)) for key, field in _USAGE.items()})
    return None if usage == Usage() else usage


def _write_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {key: getattr(usage, field) for key, field in _USAGE.items()}
    return {key: count for key, count in counts.items() if count is not None}


def _read_cost(attributes: Mapping[str, Any]) -> Cost | None:
    amount = as_number(attributes.get("llm.cost.total"))
    return None if amount is None or amount < 0 else Cost(amount=amount)


def _write_answers(operation: Operation) -> dict[str, Any]:
    body = operation.body
    if not isinstance(body, Action) or body.generation is None:
        return {}
    messages = [each.message for each in (body, *operation.choices) if each.message is not None]
    return {
        **given(
            {
                KIND: "LLM",
                "llm.model_name": body.generation.model,
                "llm.response.model_name": body.generation.served_model,
                "llm.provider": body.generation.provider,
                "llm.finish_reason": body.generation.finish_reason,
            }
        ),
        **write_messages("llm.output_messages", messages),
    }
