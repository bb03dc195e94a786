"""Answers of /v1/chat/completions: whole, or as server-sent chunks."""

import time
from collections.abc import Sequence
from typing import Any

from atdp.inference.chat_template import parse_tool_calls
from atdp.inference.worker.generate_answer import meta_info, output_text, span_objects
from atdp.inference.worker.request_bodies import ChatBody
from atdp.inference.worker.sequence import Progress
from atdp.inference.worker.served_model import ServedModel


def completion(body: ChatBody, model: ServedModel, results: Sequence[Progress]) -> dict[str, Any]:
    """Return the whole answer."""
    first = results[0]
    produced = sum(len(result.output) for result in results)
    return {
        "id": first.job.rid,
        "object": "chat.completion",
        "created": int(first.job.received_at),
        "model": body.model,
        "choices": [_choice(body, model, number, result) for number, result in enumerate(results)],
        "usage": usage(len(first.job.prompt), produced),
        "metadata": {
            "weight_version": first.weight_version,
            "weight_versions": span_objects(first.spans),
        },
    }


def usage(prompt_tokens: int, produced: int) -> dict[str, Any]:
    """Return the token counts in OpenAI's shape."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + produced,
        "completion_tokens": produced,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def _choice(body: ChatBody, model: ServedModel, number: int, result: Progress) -> dict[str, Any]:
    message, reason = _message(body, model, result)
    matched = result.finish.matched if result.finish else None
    choice: dict[str, Any] = {
        "index": number,
        "message": message,
        "logprobs": _logprobs(model, result) if body.logprobs else None,
        "finish_reason": reason,
        "matched_stop": matched,
    }
    if body.return_prompt_token_ids:
        choice["prompt_token_ids"] = list(result.job.prompt)
    if body.return_token_ids:
        choice["prompt_token_ids"] = list(result.job.prompt)
        choice["response_token_ids"] = list(result.output)
    if body.return_meta_info:
        choice["meta_info"] = meta_info(result, model, logprobs=body.logprobs)
    return choice


def _message(body: ChatBody, model: ServedModel, result: Progress) -> tuple[dict[str, Any], str]:
    text = output_text(result, model)
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": None}
    reason = result.finish.kind if result.finish else "abort"
    if body.offered_tools:
        parsed = parse_tool_calls(text, body.offered_tools)
        if parsed.tool_calls:
            message |= {"content": parsed.content, "tool_calls": list(parsed.tool_calls)}
            reason = "tool_calls" if reason == "stop" else reason  # type: ignore[assignment]
    return message, reason


def _logprobs(model: ServedModel, result: Progress) -> dict[str, Any]:
    tops = result.top or ((),) * len(result.output)
    return {
        "content": [
            {
                **_token(model, token, value),
                "top_logprobs": [_token(model, other, other_value) for other_value, other in top],
            }
            for token, value, top in zip(result.output, result.logprobs, tops, strict=True)
        ]
    }


def _token(model: ServedModel, token: int, logprob: float) -> dict[str, Any]:
    text = model.text((token,), skip_special_tokens=False)
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob}


class ChatChunks:
    """Converts the progress of one choice to `chat.completion.chunk` objects.

    Text is sent as it is generated. When tools are offered it is sent at the end, since only then
    it is known whether it is text or tool calls.
    """

    def __init__(self, body: ChatBody, model: ServedModel) -> None:
        """Start the stream of one choice."""
        self._body = body
        self._model = model
        self._sent = 0
        self._opened = False

    def __call__(self, progress: Progress) -> list[dict[str, Any]]:
        """Return the chunks that this progress adds."""
        chunks = []
        if not self._opened:
            self._opened = True
            chunks.append(self._chunk(progress, {"role": "assistant", "content": ""}))
        if progress.finish is None:
            text = (
                ""
                if self._body.offered_tools
                else output_text(progress, self._model).rstrip("\ufffd")
            )
            if len(text) > self._sent:
                chunks.append(self._chunk(progress, {"content": text[self._sent :]}))
                self._sent = len(text)
            return chunks
        message, reason = _message(self._body, self._model, progress)
        rest = (message["content"] or "")[self._sent :]
        if rest:
            chunks.append(self._chunk(progress, {"content": rest}))
        if "tool_calls" in message:
            chunks.append(self._chunk(progress, {"tool_calls": message["tool_calls"]}))
        chunks.append(self._chunk(progress, {}, reason))
        if (self._body.stream_options or {}).get("include_usage"):
            last = self._chunk(progress, {})
            chunks.append(
                {
                    **last,
                    "choices": [],
                    "usage": usage(len(progress.job.prompt), len(progress.output)),
                }
            )
        return chunks

    def _chunk(
        self, progress: Progress, delta: dict[str, Any], reason: str | None = None
    ) -> dict[str, Any]:
        return {
            "id": progress.job.rid,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._body.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }
