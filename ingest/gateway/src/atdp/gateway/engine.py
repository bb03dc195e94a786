"""Talking to inference engines that speak SGLang's HTTP: where they are, one call, what tokenizer they use.

A model call has no effect but its answer, so it is tried again when the *connection* fails (an
engine that restarts), and never after an answer of any kind. Engines are named by URL, or by an
endpoint of the home, which is looked up at each use, since the local stack's ports may change
between starts.

The tokenizer's identity (SHA-256 of `tokenizer.json`; of the chat template's text) is taken from
the route, else from the engine's `/model_info` (`tokenizer_hash`, `template_hash`), else from the
files under the `tokenizer_path` or `model_path` that it names when they are on this machine. It is
asked for once per engine and weight version. A tokenizer found so is also registered under
`home/tokenizers/<hash>/`, where governance reads it to scan token ids.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from atdp.gateway.routes import Engine
from atdp.inference import (
    EngineInfo,
    directory_template_hash,
    parse_engine_info,
    register_tokenizer,
    tokenizer_hash,
)
from atdp.runtime import Home, SettingsError

_log = logging.getLogger("atdp.gateway.engine")

_CONNECTION_FAILED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
# Waits before the tries after the first: enough for a stale keep-alive connection and for a quick
# restart.
_RETRY_AFTER_S = (0.05, 0.5)


@dataclass(frozen=True)
class EngineAnswer:
    """Status and JSON body of an engine's answer; `document` is None when the body is not a JSON object."""

    status: int
    body: bytes
    document: dict[str, Any] | None


class EngineUnreachable(Exception):
    """No answer: the connection failed, or the time ran out. The text quotes no event data."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class TokenizerIdentity:
    """Hashes (SHA-256 hex) of the tokenizer and the chat template; None where unknown."""

    tokenizer_hash: str | None = None
    template_hash: str | None = None


class Engines:
    """One HTTP client for all engines of the routes."""

    def __init__(
        self, home: Home, timeout_s: float, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._home = home
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=5.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            transport=transport,
            trust_env=False,  # engines are ours; a proxy of the environment has no business here
        )
        self._tokenizers: dict[tuple[str, str | None], TokenizerIdentity] = {}

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def chat(self, engine: Engine, request: Mapping[str, Any]) -> EngineAnswer:
        """One model call.

        Raises:
            EngineUnreachable: no answer came.
        """
        return await self._send("POST", engine, "/v1/chat/completions", orjson.dumps(request))

    async def get(self, engine: Engine, path: str) -> EngineAnswer:
        """One GET.

        Raises:
            EngineUnreachable: no answer came.
        """
        return await self._send("GET", engine, path, None)

    async def tokenizer(self, engine: Engine, weight_version: str | None) -> TokenizerIdentity:
        """Which tokenizer and template an engine uses with these weights.

        Unknown parts are None, and asked again.
        """
        known = self._tokenizers.get((engine.url, weight_version))
        if known is None:
            known = await self._ask_tokenizer(engine)
            if known.tokenizer_hash is not None:
                self._tokenizers[engine.url, weight_version] = known
        return TokenizerIdentity(
            engine.tokenizer_hash or known.tokenizer_hash,
            engine.template_hash or known.template_hash,
        )

    async def _ask_tokenizer(self, engine: Engine) -> TokenizerIdentity:
        try:
            answer = await self.get(engine, "/model_info")
        except EngineUnreachable:
            return TokenizerIdentity()
        info = parse_engine_info(answer.document or {})
        return await asyncio.to_thread(_identity, self._home, info)

    async def _send(
        self, method: str, engine: Engine, path: str, content: bytes | None
    ) -> EngineAnswer:
        headers = {"content-type": "application/json"} if content is not None else {}
        for wait_s in (*_RETRY_AFTER_S, None):
            try:
                url = self._resolve(engine.url) + path
                answer = await self._client.request(method, url, content=content, headers=headers)
            except _CONNECTION_FAILED as error:
                if wait_s is None:
                    raise EngineUnreachable(
                        "engine_unreachable",
                        f"the engine {engine.url} cannot be reached ({type(error).__name__}); see `atdp status`",
                    ) from error
                await asyncio.sleep(wait_s)
            except httpx.TimeoutException as error:
                raise EngineUnreachable(
                    "engine_timeout",
                    f"the engine {engine.url} gave no answer within {self._timeout_s:g} s",
                ) from error
            except httpx.HTTPError as error:
                raise EngineUnreachable(
                    "engine_broke_off",
                    f"the engine {engine.url} broke off its answer ({type(error).__name__})",
                ) from error
            else:
                return EngineAnswer(answer.status_code, answer.content, _object(answer.content))
        raise AssertionError("the last try returns or raises")

    def _resolve(self, url: str) -> str:
        if "://" in url:
            return url
        try:
            return self._home.endpoints()[url]
        except (KeyError, SettingsError) as error:
            raise EngineUnreachable(
                "engine_unknown",
                f"no endpoint {url!r} in {self._home.endpoints_file}; is the stack up?",
            ) from error


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _identity(home: Home, info: EngineInfo) -> TokenizerIdentity:
    tokenizer, template = info.tokenizer_hash, info.template_hash
    folders = [Path(name) for name in (info.tokenizer_path, info.model_path) if name is not None]
    folder = next((each for each in folders if (each / "tokenizer.json").is_file()), None)
    if folder is None:
        return TokenizerIdentity(tokenizer, template)
    file = folder / "tokenizer.json"
    try:
        local_hash = tokenizer_hash(file)
        tokenizer = tokenizer or local_hash
        template = template or directory_template_hash(folder)
        if tokenizer == local_hash:
            register_tokenizer(home.tokenizers, file)
    except (OSError, ValueError) as error:
        _log.warning(
            "a tokenizer cannot be read", extra={"file": str(file), "why": type(error).__name__}
        )
    return TokenizerIdentity(tokenizer, template)
