"""The pieces of an ATIF step: content, tool calls, results, metrics.

Each piece has a reader and a writer. A reader's value holds in its `ext_json` what its writer alone
would not give (`atdp.adapters.documents.remainder`), so that writer and `ext_json` together give
the piece back as it was.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from atdp.adapters.documents.json_text import ordered_json
from atdp.adapters.documents.remainder import remainder_json, restore_from
from atdp.adapters.documents.typed import (
    as_count,
    as_counts,
    as_number,
    as_object,
    as_objects,
    as_single_numbers,
    as_text,
    without_none,
)
from atdp.schemas import (
    Cost,
    Generation,
    Link,
    Message,
    Outcome,
    Part,
    ToolCall,
    Usage,
    canonical_json,
    parsed_json,
)

CONTENT_AS_LIST = '{"content":"list"}'
"""`ext_json` of a message whose content is a list where a text would do."""

SUBAGENT = "subagent"
"""Relation of a link to the trajectory of a sub-agent."""


def read_content(content: object) -> tuple[tuple[Part, ...], str | None]:
    """Return the parts of a message's content, and the `ext_json` of the message."""
    if isinstance(content, str):
        return ((Part(type="text", text=content),) if content else ()), None
    entries = as_objects(content)
    if entries is None:
        return (), None
    parts = tuple(_read_part(entry) for entry in entries)
    return parts, CONTENT_AS_LIST if _is_plain(parts) else None


def write_content(message: Message) -> Any:
    """Return the content of a message: a text, or a list of parts."""
    parts = [part for part in message.parts if part.type in {"text", "image", "unknown"}]
    if message.ext_json == CONTENT_AS_LIST or not _is_plain(parts):
        return [restore_from(_write_part(part), part.ext_json) for part in parts]
    return "".join(part.text or "" for part in parts)


def _is_plain(parts: Sequence[Part]) -> bool:
    return not parts or (len(parts) == 1 and parts[0].type == "text" and not parts[0].ext_json)


def _read_part(entry: Mapping[str, Any]) -> Part:
    match entry.get("type"):
        case "text":
            part = Part(type="text", text=as_text(entry.get("text")))
        case "image":
            image = as_object(entry.get("source"))
            part = Part(
                type="image", mime=as_text(image.get("media_type")), uri=as_text(image.get("path"))
            )
        case _:
            part = Part(type="unknown")
    return replace(part, ext_json=remainder_json(_write_part(part), entry))


def _write_part(part: Part) -> dict[str, Any]:
    if part.type == "image":
        source = without_none(media_type=part.mime, path=part.uri)
        return {"type": "image", "source": source}
    return without_none(type=part.type, text=part.text)


def read_tool_call(entry: Mapping[str, Any]) -> ToolCall:
    """Return a tool call; `arguments` keeps the order of the keys."""
    arguments = entry.get("arguments")
    text = arguments if isinstance(arguments, str) else ordered_json(arguments)
    call = ToolCall(
        call_id=as_text(entry.get("tool_call_id")) or "",
        name=as_text(entry.get("function_name")) or "",
        arguments=text,
        arguments_json=parsed_json(text),
        tool_type="function",
    )
    return replace(call, ext_json=remainder_json(write_tool_call(call), entry))


def write_tool_call(call: ToolCall) -> dict[str, Any]:
    """Return what the fields of a tool call say, without its `ext_json`."""
    return {
        "tool_call_id": call.call_id,
        "function_name": call.name,
        "arguments": _arguments(call.arguments),
    }


def _arguments(text: str) -> Any:
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    return arguments if isinstance(arguments, dict) else text


def tool_call_part(call: ToolCall, *, with_rest: bool) -> Part:
    """Return the tool call as a part of the assistant's message."""
    return Part(
        type="tool_call",
        text=call.arguments,
        call_id=call.call_id,
        name=call.name,
        ext_json=call.ext_json if with_rest else None,
    )


def tool_call_of_part(part: Part) -> ToolCall:
    """Return the tool call that a part of a message describes."""
    return ToolCall(
        call_id=part.call_id or "",
        name=part.name or "",
        arguments=part.text or "",
        ext_json=part.ext_json,
    )


def read_result(entry: Mapping[str, Any], names: Mapping[str, str]) -> tuple[Message, Outcome]:
    """Return an observation's result as a message of the context and as an outcome.

    `names` are the names of the step's tools by call id.
    """
    call_id = as_text(entry.get("source_call_id"))
    parts, form = read_content(entry.get("content"))
    name = names.get(call_id or "")
    message = Message(role="tool", parts=parts, name=name, call_id=call_id, ext_json=form)
    rest = remainder_json(write_result(message, result_links(entry)), entry)
    return message, Outcome(call_id=call_id, name=name, message=message, ext_json=rest)


def write_result(message: Message, links: Sequence[Link]) -> dict[str, Any]:
    """Return what the fields of a result say, without its `ext_json`."""
    written = without_none(source_call_id=message.call_id, content=write_content(message))
    references = [json.loads(link.ext_json or "{}") for link in links if link.relation == SUBAGENT]
    return {**written, "subagent_trajectory_ref": references} if references else written


def result_links(entry: Mapping[str, Any]) -> tuple[Link, ...]:
    """Return a link for each trajectory of a sub-agent, with the reference as it is."""
    references = as_objects(entry.get("subagent_trajectory_ref")) or []
    return tuple(
        Link(relation=SUBAGENT, ext_json=canonical_json(reference)) for reference in references
    )


def read_usage(metrics: Mapping[str, Any]) -> Usage | None:
    """Return the token counts of a step; None when there are none."""
    extra = as_object(metrics.get("extra"))
    usage = Usage(
        input_tokens=as_count(metrics.get("prompt_tokens")),
        output_tokens=as_count(metrics.get("completion_tokens")),
        cached_input_tokens=as_count(metrics.get("cached_tokens")),
        cache_write_tokens=as_count(extra.get("cache_creation_input_tokens")),
        reasoning_tokens=as_count(extra.get("reasoning_tokens")),
    )
    return None if usage == Usage() else usage


def read_cost(metrics: Mapping[str, Any]) -> Cost | None:
    """Return the cost of a step in US dollars."""
    amount = as_number(metrics.get("cost_usd"))
    return None if amount is None or amount < 0 else Cost(amount=amount)


def read_generation(step: Mapping[str, Any], default_model: str | None) -> Generation:
    """Return the model call of a step, with its tokens where all of them are consistent."""
    metrics = as_object(step.get("metrics"))
    output = as_counts(metrics.get("completion_token_ids"))
    logprobs = as_single_numbers(metrics.get("logprobs"))
    fits = output is not None and logprobs is not None and len(output) == len(logprobs)
    return Generation(
        model=as_text(step.get("model_name")) or default_model,
        reasoning_effort=as_text(step.get("reasoning_effort")),
        prompt_token_ids=as_counts(metrics.get("prompt_token_ids")),
        output_token_ids=output,
        output_logprobs=logprobs if fits else None,
        logprob_encoding="unknown" if fits else None,
    )


def write_metrics(
    usage: Usage | None, cost: Cost | None, generation: Generation | None
) -> dict[str, Any]:
    """Return the metrics of a step; empty when nothing is known."""
    usage, generation = usage or Usage(), generation or Generation()
    extra = without_none(
        reasoning_tokens=usage.reasoning_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
    )
    return without_none(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_input_tokens,
        cost_usd=None if cost is None else cost.amount,
        prompt_token_ids=_list(generation.prompt_token_ids),
        completion_token_ids=_list(generation.output_token_ids),
        logprobs=_list(generation.output_logprobs),
        extra=extra or None,
    )


def _list(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
