"""One call of a judge: an OpenAI-compatible chat completion, read within a time and a size.

The call carries the id of the verdict as `Idempotency-Key`, so that an endpoint which knows the
header charges a call once that is repeated after a kill.
"""

import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeGuard

import httpx

from atdp.rewards.evaluators.errors import CallNotMade, EvaluationFailed
from atdp.rewards.evaluators.evaluators_file import ApiKeySource, JudgeEvaluator, Price
from atdp.rewards.evaluators.judge_prompt import ShownConversation
from atdp.rewards.evaluators.verdict import Answer, JudgeVerdict, read_judge_text

_MOST_ANSWER_BYTES = 4 * 1024 * 1024
_MOST_TOKENS = 2**40
_LONGEST_RETRY_AFTER_S = 24 * 3600.0


class JudgeClient:
    """Asks one judge; safe to use from several threads."""

    def __init__(self, settings: JudgeEvaluator, folder: Path, environ: Mapping[str, str]) -> None:
        self._settings, self._folder, self._environ = settings, folder, environ
        self._url = f"{str(settings.base_url).rstrip('/')}/chat/completions"
        self._http = httpx.Client(
            timeout=settings.timeout_s,
            trust_env=False,
            verify=_tls_context() if settings.base_url.scheme == "https" else False,
            limits=httpx.Limits(max_connections=settings.concurrency),
        )

    def ask(self, shown: ShownConversation, *, idempotency_key: str) -> Answer:
        """Return the judge's answer.

        Raises:
            CallNotMade: the judge cannot be reached, or refused the call.
            EvaluationFailed: it gave no verdict.
        """
        headers = {"Idempotency-Key": idempotency_key, **self._authorization()}
        try:
            status, retry_after, body = self._post(self._request(shown), headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise CallNotMade("down", "the judge cannot be reached") from error
        except httpx.TimeoutException as error:
            raise EvaluationFailed("slow", "the judge did not answer in time") from error
        except httpx.HTTPError as error:
            raise EvaluationFailed(
                "down", f"the connection to the judge failed ({type(error).__name__})"
            ) from error
        if status != HTTPStatus.OK:
            raise _refusal(status, retry_after)
        return self._read(body, cut=shown.cut)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _authorization(self) -> dict[str, str]:
        key = _api_key(self._settings.api_key, self._folder, self._environ)
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def _request(self, shown: ShownConversation) -> dict[str, Any]:
        settings = self._settings
        request: dict[str, Any] = {
            "model": settings.model,
            "messages": list(shown.messages),
            "temperature": settings.temperature,
            "max_tokens": settings.max_answer_tokens,
        }
        if settings.answer_format == "json_schema":
            schema = JudgeVerdict.model_json_schema()
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
        elif settings.answer_format == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _post(
        self, request: dict[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, str | None, bytes]:
        """Return status, `Retry-After` and body; a body that drips does not last for ever."""
        deadline = time.monotonic() + self._settings.timeout_s
        body = bytearray()
        with self._http.stream("POST", self._url, json=request, headers=headers) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if time.monotonic() > deadline:
                    raise EvaluationFailed("slow", "the judge did not answer in time")
                if len(body) > _MOST_ANSWER_BYTES:
                    raise EvaluationFailed("nonsense", "the judge's answer is too long")
            return response.status_code, response.headers.get("Retry-After"), bytes(body)

    def _read(self, body: bytes, *, cut: bool) -> Answer:
        try:
            completion = httpx.Response(200, content=body).json()
            choice = completion["choices"][0]
            text, finished = choice["message"]["content"], choice.get("finish_reason")
            model, cost = completion.get("model"), _cost(self._settings.price, completion)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise EvaluationFailed("nonsense", "the answer is no chat completion") from None
        if not isinstance(text, str) or finished == "length":
            raise EvaluationFailed("nonsense", "the judge's answer is empty or was cut", cost=cost)
        try:
            verdict = read_judge_text(text)
        except EvaluationFailed as error:
            error.cost = cost
            raise
        return Answer(
            verdict=verdict,
            model=model if _is_name(model) else None,
            cut=cut,
            cost=cost,
        )


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Return the context of all clients; making one takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=False)


def _api_key(source: ApiKeySource | None, folder: Path, environ: Mapping[str, str]) -> str | None:
    if source is None:
        return None
    if source.env is not None:
        key = environ.get(source.env, "")
    else:
        try:
            key = (folder / (source.file or "")).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            key = ""
    if not key or not key.isascii() or not key.isprintable():
        raise CallNotMade(
            "key", f"there is no API key in {source.env or source.file}; the worker needs it"
        )
    return key


def _refusal(status: int, retry_after: str | None) -> EvaluationFailed:
    wait_s = _stated_wait_s(retry_after)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return CallNotMade("rate_limited", "the judge limits the rate", retry_after_s=wait_s)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return CallNotMade("down", "the judge answers 503", retry_after_s=wait_s)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # The model may have answered, and what came after it failed: the call may be paid.
        return EvaluationFailed("down", f"the judge answers {status}", retry_after_s=wait_s)
    return CallNotMade("refused", f"the judge refuses the call with {status}")


def _stated_wait_s(retry_after: str | None) -> float | None:
    """Return the seconds that a `Retry-After` states as a number or as a date; None without."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_RETRY_AFTER_S)
    try:
        wait_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(wait_s, 0.0), _LONGEST_RETRY_AFTER_S)


def _is_name(model: object) -> TypeGuard[str]:
    """Return whether the name of a model can stand in an event: text that no encoder refuses."""
    return isinstance(model, str) and len(model) <= 200 and model.isprintable()


def _cost(price: Price | None, answer: Mapping[str, Any]) -> float | None:
    usage = answer.get("usage")
    if price is None or not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return (prompt * price.per_1m_input_tokens + completion * price.per_1m_output_tokens) / 1e6


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _MOST_TOKENS
