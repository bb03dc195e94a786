"""`POST /v1/chat/completions`: a recording proxy in front of the engines.

An agent that uses the official `openai` package changes `base_url` and `api_key`, nothing else.
Each call is forwarded to the engine of its session, recorded (see `trajectory_events`), and
answered only when its events are acknowledged: an answer that an agent has seen is in the log. When
Kafka does not acknowledge, the answer is 503, and the recorded events are sent again with the
session's next call. An engine's error answer is recorded as a gap and passed on unchanged.

Answer headers: `x-atdp-trajectory`, `x-atdp-session`, `x-atdp-events` (events recorded for this
call), `x-atdp-weight-version`, `x-atdp-track` (`stable` or `canary`). Ids in headers are
percent-encoded, see `header_text`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from atdp.gateway import generation_fields, sse
from atdp.gateway.engine_calls import EngineAnswer, EngineUnreachable
from atdp.gateway.engine_routes import EngineRoute, Track
from atdp.gateway.header_text import to_header
from atdp.gateway.request_body import read_object
from atdp.gateway.session_resolution import trajectory_of
from atdp.gateway.session_store import SessionRow
from atdp.gateway.state import GatewayState, state_of
from atdp.gateway.trajectory_events import Answered, Asked, FailedCall
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
# Exceptions of reading an answer of an engine that does not have the form of a completion.
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
    """Make one recorded model call."""
    gateway = state_of(request)
    caller = authenticate(request, gateway.keys, "generate")
    body = await read_object(request, gateway.settings.max_body_bytes)
    asked = _read_request(body)
    row = trajectory_of(gateway, caller, request)
    reply = await _call_engine(gateway, row, body)
    result = await _result(gateway, body, reply)
    if isinstance(result, FailedCall):
        gateway.metrics.engine_failures.labels(result.code).inc()
    count = await gateway.recorder.record(
        row, caller.signing_key, lambda live: live.call(asked, result)
    )
    headers = {
        "x-atdp-trajectory": to_header(row.trajectory_id),
        "x-atdp-session": to_header(row.session_id),
        "x-atdp-events": str(count),
        "x-atdp-track": reply.track,
    }
    answer = reply.answer
    if isinstance(answer, HttpProblem):
        return JSONResponse(answer.body(), answer.status, headers)
    if isinstance(result, FailedCall) or answer.document is None:
        return Response(answer.body, answer.status, headers, media_type="application/json")
    headers["x-atdp-weight-version"] = to_header(result.versions.weights or "")
    document = generation_fields.client_answer(body, answer.document)
    if body.get("stream"):
        return StreamingResponse(
            sse.chunks(body, document), 200, headers, media_type="text/event-stream"
        )
    return Response(orjson.dumps(document), 200, headers, media_type="application/json")


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """Return the models of the stable engine."""
    gateway = state_of(request)
    authenticate(request, gateway.keys, "generate")
    try:
        answer = await gateway.engines.get(gateway.routes.current.stable, "/v1/models")
    except EngineUnreachable as error:
        raise _engine_problem(error) from error
    return Response(answer.body, answer.status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class _EngineReply:
    """The engine that was called, and its answer or the problem that prevented one."""

    track: Track
    engine: EngineRoute
    answer: EngineAnswer | HttpProblem


async def _call_engine(
    gateway: GatewayState, row: SessionRow, body: Mapping[str, Any]
) -> _EngineReply:
    track, engine = _engine_of(gateway, row)
    answer: EngineAnswer | HttpProblem
    began = time.perf_counter()
    try:
        answer = await gateway.engines.chat(engine, generation_fields.engine_request(body))
    except EngineUnreachable as error:
        answer = _engine_problem(error)
    gateway.metrics.engine_seconds.labels(track).observe(time.perf_counter() - began)
    return _EngineReply(track, engine, answer)


def _engine_of(gateway: GatewayState, row: SessionRow) -> tuple[Track, EngineRoute]:
    """Return the engine of a trajectory.

    This is the engine of its first call, as long as a route names it, else a new choice, which is
    stored.
    """
    routes = gateway.routes.current
    stored = routes.find(row.engine) if row.engine is not None else None
    if stored is not None:
        return stored
    track, engine = routes.choose(row.tenant, row.session_id)
    gateway.sessions.set_engine(row, engine.url)
    return track, engine


def _engine_problem(error: EngineUnreachable) -> HttpProblem:
    return HttpProblem(502, error.code, str(error), retry_after_s=1)


def _read_request(body: Mapping[str, Any]) -> Asked:
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
    gateway: GatewayState, body: Mapping[str, Any], reply: _EngineReply
) -> Answered | FailedCall:
    """Return the result to record for an engine's reply."""
    at = datetime.now(UTC)
    answer = reply.answer
    if isinstance(answer, HttpProblem):
        return FailedCall(code=answer.code, detail=str(answer), at=at)
    if answer.status != _OK:
        return FailedCall(
            code="engine_error", detail=f"the engine answered HTTP {answer.status}", at=at
        )
    document = answer.document or {}
    try:
        # The client gets the document with fewer fields and in a new encoding. A document for which
        # this is impossible must fail here, before anything is recorded.
        generation_fields.client_answer(body, document)
        orjson.dumps(document)
        weights = generation_fields.weight_version(document) or reply.engine.version
        identity = await gateway.engines.tokenizer(reply.engine, weights)
        message = message_from_chat(document["choices"][0]["message"], "answer")
        generation = generation_fields.read_generation(
            body,
            document,
            tokenizer_hash=identity.tokenizer_hash,
            template_hash=identity.template_hash,
        )
        return Answered(
            message=message,
            generation=generation,
            usage=generation_fields.read_usage(document),
            versions=Versions(model=generation.served_model, weights=weights),
            metadata_json=canonical_json({"track": reply.track}),
            ext_json=generation_fields.further_parameters(body),
            at=at,
        )
    except _UNREADABLE as error:
        # An answer that does not have the expected form is passed on, and recorded as a gap.
        return FailedCall(
            code="engine_answer_unreadable",
            detail=f"the answer cannot be read: {type(error).__name__}",
            at=at,
        )
