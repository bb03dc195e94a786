"""`POST /v1/chat/completions`: a recording proxy in front of the engines.

An agent that uses the official `openai` package changes `base_url` and `api_key`, nothing else.
Each call is forwarded to the engine of its session, recorded (see `live`), and answered only when
its events are acknowledged: an answer that an agent saw is in the log. When Kafka does not
acknowledge, the answer is 503 and what was recorded is sent again with the session's next call. An
engine's error answer is recorded as a gap and passed on unchanged.

Answer headers: `x-atdp-trajectory`, `x-atdp-session`, `x-atdp-events` (events recorded for this
call), `x-atdp-weight-version`, `x-atdp-track` (`stable` or `canary`). Ids in headers are
percent-encoded, see `header_text`.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from atdp.gateway import generation, sse
from atdp.gateway.engine import EngineAnswer, EngineUnreachable, TokenizerIdentity
from atdp.gateway.header_text import to_header
from atdp.gateway.request_body import read_object
from atdp.gateway.routes import Engine, Track
from atdp.gateway.session_resolution import trajectory_of
from atdp.gateway.session_store import SessionRow
from atdp.gateway.state import GatewayState, state_of
from atdp.gateway.trajectory_events import Answered, Asked, Failed
from atdp.runtime import HttpProblem, authenticate
from atdp.schemas import (
    MalformedMessage,
    NotCanonical,
    Versions,
    canonical_json,
    message_from_chat,
    messages_from_chat,
)

router = APIRouter()

_OK = 200
# What reading an engine's answer raises when it does not have the form of a chat completion.
_UNREADABLE = (
    MalformedMessage,
    NotCanonical,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
)


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """One recorded model call."""
    gateway = state_of(request)
    caller = authenticate(request, gateway.keys, "generate")
    body = await read_object(request, gateway.settings.max_body_bytes)
    asked = _asked(body)
    row = trajectory_of(gateway, caller, request)
    track, engine = engine_of(gateway, row)
    began = time.perf_counter()
    try:
        answer = await gateway.engines.chat(engine, generation.engine_request(body))
        problem = None
    except EngineUnreachable as error:
        answer = None
        problem = HttpProblem(502, error.code, str(error), retry_after_s=1)
    gateway.metrics.engine_seconds.labels(track).observe(time.perf_counter() - began)
    result = await _result(gateway, engine, track, body, answer, problem)
    if isinstance(result, Failed):
        gateway.metrics.engine_failures.labels(result.code).inc()
    count = await gateway.recorder.record(
        row, caller.signing_key, lambda live: live.call(asked, result)
    )
    headers = {
        "x-atdp-trajectory": to_header(row.trajectory_id),
        "x-atdp-session": to_header(row.session_id),
        "x-atdp-events": str(count),
        "x-atdp-track": track,
    }
    if problem is not None:
        return JSONResponse(problem.body(), problem.status, headers)
    assert answer is not None
    if isinstance(result, Failed) or answer.document is None:
        return Response(answer.body, answer.status, headers, media_type="application/json")
    headers["x-atdp-weight-version"] = to_header(result.versions.weights or "")
    document = generation.strip(body, answer.document)
    if body.get("stream"):
        return StreamingResponse(
            sse.chunks(body, document), 200, headers, media_type="text/event-stream"
        )
    return Response(orjson.dumps(document), 200, headers, media_type="application/json")


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """The stable engine's models."""
    gateway = state_of(request)
    authenticate(request, gateway.keys, "generate")
    try:
        answer = await gateway.engines.get(gateway.routes.current.stable, "/v1/models")
    except EngineUnreachable as error:
        raise HttpProblem(502, error.code, str(error), retry_after_s=1) from error
    return Response(answer.body, answer.status, media_type="application/json")


def engine_of(gateway: GatewayState, row: SessionRow) -> tuple[Track, Engine]:
    """The engine of a trajectory.

    The one it began with while a route names it, else chosen and pinned now.
    """
    routes = gateway.routes.current
    pinned = routes.still(row.engine) if row.engine is not None else None
    if pinned is not None:
        return pinned
    track, engine = routes.choose(row.tenant, row.session_id)
    gateway.sessions.set_engine(row, engine.url)
    return track, engine


def _asked(body: Mapping[str, Any]) -> Asked:
    count = body.get("n")
    if count not in (None, 1):
        raise HttpProblem(
            422, "several_choices", "n > 1 cannot be recorded as one decision; make n calls instead"
        )
    tools = [] if body.get("tools") is None else body["tools"]
    if not isinstance(tools, list):
        raise HttpProblem(422, "bad_tools", "'tools' must be a list")
    try:
        messages = messages_from_chat(body.get("messages"))
        # A body that cannot be written again can be neither forwarded nor recorded.
        canonical_json(dict(body))
    except (MalformedMessage, NotCanonical) as error:
        raise HttpProblem(422, "bad_messages", str(error)) from error
    return Asked(messages=messages, tools=tools, at=datetime.now(UTC))


async def _result(
    gateway: GatewayState,
    engine: Engine,
    track: Track,
    body: Mapping[str, Any],
    answer: EngineAnswer | None,
    problem: HttpProblem | None,
) -> Answered | Failed:
    at = datetime.now(UTC)
    if answer is None:
        assert problem is not None
        return Failed(code=problem.code, detail=str(problem), at=at)
    if answer.status != _OK:
        return Failed(
            code="engine_error", detail=f"the engine answered HTTP {answer.status}", at=at
        )
    document = answer.document or {}
    weights = generation.weight_version(document) or engine.version
    identity = await gateway.engines.tokenizer(engine, weights)
    try:
        orjson.dumps(document)  # the client gets it written anew: now or never
        return _answered(body, document, identity, weights, track, at)
    except _UNREADABLE as error:
        # The engine's answer is foreign data of any shape: it is passed on, and recorded as not
        # understood.
        return Failed(
            code="engine_answer_unreadable",
            detail=f"the answer cannot be read: {type(error).__name__}",
            at=at,
        )


def _answered(
    body: Mapping[str, Any],
    document: dict[str, Any],
    identity: TokenizerIdentity,
    weights: str | None,
    track: Track,
    at: datetime,
) -> Answered:
    found = generation.generation(
        body, document, tokenizer_hash=identity.tokenizer_hash, template_hash=identity.template_hash
    )
    return Answered(
        message=message_from_chat(document["choices"][0]["message"], "answer"),
        generation=found,
        usage=generation.usage(document),
        versions=Versions(model=found.served_model, weights=weights),
        metadata_json=canonical_json({"track": track}),
        ext_json=generation.further_parameters(body),
        at=at,
    )
