"""A finished chat answer as server-sent events, for clients that asked for `stream: true`.

The engine is called without streaming, because the answer may be sent only when its events are
acknowledged, and because the token ids and log-probabilities come with the whole answer. A
streaming client therefore gets all its chunks at once: the role, the content, the tool calls, the
finish reason, the usage when `stream_options.include_usage` asks for it, and `[DONE]`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson


def chunks(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of one answer in the form of OpenAI's `chat.completion.chunk`."""
    frame = {
        "id": answer.get("id"),
        "object": "chat.completion.chunk",
        "created": answer.get("created"),
        "model": answer.get("model"),
    }
    for choice in answer.get("choices") or []:
        for delta in _deltas(choice.get("message") or {}):
            yield _event({**frame, "choices": [_choice(choice, delta, None)]})
        last = _choice(choice, {}, choice.get("finish_reason"))
        extra = {
            key: choice[key]
            for key in ("prompt_token_ids", "response_token_ids", "meta_info")
            if key in choice
        }
        yield _event({**frame, "choices": [{**last, **extra, "logprobs": choice.get("logprobs")}]})
    options = request.get("stream_options")
    if isinstance(options, Mapping) and options.get("include_usage"):
        yield _event({**frame, "choices": [], "usage": answer.get("usage")})
    yield b"data: [DONE]\n\n"


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": message.get("role", "assistant"), "content": ""}
    for name in ("reasoning_content", "content"):
        if message.get(name):
            yield {name: message[name]}
    calls = message.get("tool_calls")
    if calls:
        yield {"tool_calls": [{**call, "index": index} for index, call in enumerate(calls)]}


def _choice(
    choice: Mapping[str, Any], delta: dict[str, Any], finish_reason: str | None
) -> dict[str, Any]:
    return {"index": choice.get("index", 0), "delta": delta, "finish_reason": finish_reason}


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"
