"""`POST /v1/chat/completions`: a recording proxy in front of the engines.

An agent that uses the official `openai` package changes `base_url` and `api_key`, nothing else.
Each call gets its trajectory (`call_placement`), is forwarded to the engine of its session,
recorded (`trajectory_events`), and answered only when its events are acknowledged: an answer that
an agent has seen is in the log. When Kafka does not acknowledge, the answer is 503, and the
recorded events are sent again with the session's next call. An engine's error answer is recorded as
a gap and passed on unchanged. An answer of weights that are not proven (`weights_proof`) is
recorded as a gap and not passed on. Several choices (`n`) are several samples of one decision.

Answer headers: `x-atdp-trajectory`, `x-atdp-session`, `x-atdp-events` (events recorded for this
call), `x-atdp-weight-version`, `x-atdp-track` (`stable` or `canary`), and for a request with
`x-atdp-rating-link: 1` a link of that name. Ids in headers are percent-encoded, see `header_text`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from atdp.gateway import generation_fields, sse
from atdp.gateway.call_placement import PlacedCall, place_call
from atdp.gateway.content_versions import call_versions, prompt_version
from atdp.gateway.engine_calls import EngineAnswer, EngineUnreachable, TokenizerIdentity
from atdp.gateway.engine_routes import EngineRoute, Track
from atdp.gateway.feedback.feedback_targets import remember_response
from atdp.gateway.feedback.rating_link import offered_link
from atdp.gateway.header_text import to_header
from atdp.gateway.request_body import read_object
from atdp.gateway.session_store import SessionRow
from atdp.gateway.state import GatewayState, state_of
from atdp.gateway.trajectory_events import Answered, Asked, FailedCall, LiveTrajectory
from atdp.gateway.weights_proof import UnprovenWeights
from atdp.runtime import Caller, HttpProblem, authenticate
from atdp.schemas import (
    Event,
    MalformedMessage,
    NotCanonical,
    Versions,
    canonical_json,
    message_from_chat,
)

router = APIRouter()

_OK = 200
# Choices of one answer; more would make one answer a batch of hundreds of events.
_MAX_CHOICES = 128
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
    asked = _read_request(gateway, caller, body)
    call = place_call(gateway, caller, request, body, asked.messages)
    made: list[Event] = []
    response: Any = None
    try:
        reply, result = await _reply_and_result(gateway, call.row, body)
        if isinstance(result, _Choices):
            result = _priced(gateway, call.row, asked, result)
            response = result.response_id
        else:
            gateway.metrics.engine_failures.labels(result.code).inc()

        def make(live: LiveTrajectory) -> Sequence[Event]:
            made.extend(_events(gateway, call, asked, result, live))
            return made

        # An answer may take longer than a trajectory may be idle, or the machine may have slept:
        # then the trajectory has started and ended meanwhile, and goes on.
        row = gateway.sessions.set_called(call.row, time.time())
        count = await gateway.recorder.record(row, caller.signing_key, make)
    finally:
        call.report(gateway, made, response)
    remember_response(gateway, call.row, response, made)
    answer = _answer(body, call.row, reply, result, count)
    if (link := offered_link(gateway, caller, request, call.row)) is not None:
        answer.headers["x-atdp-rating-link"] = link
    return answer


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


@dataclass(frozen=True, slots=True)
class _Choices:
    """The choices of an answer, at least one, and the id that the engine gave it."""

    answered: tuple[Answered, ...]
    response_id: Any


async def _reply_and_result(
    gateway: GatewayState, row: SessionRow, body: Mapping[str, Any]
) -> tuple[_EngineReply, _Choices | FailedCall]:
    """Call the engine; an answer of weights that are not proven counts as none."""
    reply = await _call_engine(gateway, row, body)
    try:
        return reply, await _result(gateway, body, reply)
    except UnprovenWeights as error:
        problem = HttpProblem(502, "engine_weights_unproven", str(error), retry_after_s=1)
        reply = replace(reply, answer=problem)
        return reply, await _result(gateway, body, reply)


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

    This is the engine of its first call, as long as a route names it. The first call goes to the
    engine of the session's open trajectory, so that an agent and its sub-agents talk to one
    version. Otherwise the engine is chosen, and stored.
    """
    routes = gateway.routes.current
    engine_url = row.engine or gateway.sessions.engine_of_session(row.tenant, row.session_id)
    stored = routes.find(engine_url) if engine_url is not None else None
    if stored is not None and row.engine is None:
        gateway.sessions.set_engine(row, stored[1].url)
    if stored is not None:
        return stored
    track, engine = routes.choose(row.tenant, row.session_id)
    gateway.sessions.set_engine(row, engine.url)
    return track, engine


def _engine_problem(error: EngineUnreachable) -> HttpProblem:
    return HttpProblem(502, error.code, str(error), retry_after_s=1)


def _read_request(gateway: GatewayState, caller: Caller, body: Mapping[str, Any]) -> Asked:
    count = body.get("n")
    if count is not None and (
        isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MAX_CHOICES
    ):
        raise HttpProblem(
            422, "bad_choices", f"'n' must be a whole number from 1 to {_MAX_CHOICES}"
        )
    tools = [] if body.get("tools") is None else body["tools"]
    if not isinstance(tools, list):
        raise HttpProblem(422, "bad_tools", "'tools' must be a list")
    shown = body.get("messages")
    max_messages = gateway.settings.max_messages
    if isinstance(shown, list) and len(shown) > max_messages:
        raise HttpProblem(
            413, "too_many_messages", f"a request has at most {max_messages} messages; shorten it"
        )
    key = caller.principal.key_id
    try:
        # A body that cannot be written again can be neither forwarded nor recorded.
        messages = gateway.reader.read_messages(key, shown)
        tools_hash = gateway.reader.hash_tools(key, tools)
        canonical_json({**body, "messages": None, "tools": None})
    except (MalformedMessage, NotCanonical) as error:
        raise HttpProblem(422, "bad_messages", str(error)) from error
    return Asked(messages=messages, tools=tools, tools_hash=tools_hash, at=datetime.now(UTC))


async def _result(
    gateway: GatewayState, body: Mapping[str, Any], reply: _EngineReply
) -> _Choices | FailedCall:
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
        asked_for = range(len(document["choices"]) if (body.get("n") or 1) > 1 else 1)
        choices = tuple(
            _choice(body, document, index, identity, Versions(weights=weights), reply.track)
            for index in asked_for
        )
        await gateway.weights_proofs.check(reply.engine, _named_versions(choices))
        # The engine counts the tokens of all choices together.
        first = replace(choices[0], usage=generation_fields.read_usage(document))
        return _Choices((first, *choices[1:]), document.get("id"))
    except _UNREADABLE as error:
        # An answer that does not have the expected form is passed on, and recorded as a gap.
        return FailedCall(
            code="engine_answer_unreadable",
            detail=f"the answer cannot be read: {type(error).__name__}",
            at=at,
        )


def _named_versions(choices: Sequence[Answered]) -> set[str]:
    """Return every weight version that would be recorded."""
    whole = {choice.versions.weights for choice in choices}
    spans = {span.version for choice in choices for span in choice.generation.policy_versions}
    return {version for version in whole | spans if version is not None}


def _choice(
    body: Mapping[str, Any],
    document: Mapping[str, Any],
    index: int,
    identity: TokenizerIdentity,
    versions: Versions,
    track: Track,
) -> Answered:
    generation = generation_fields.read_generation(
        body,
        document,
        tokenizer_hash=identity.tokenizer_hash,
        template_hash=identity.template_hash,
        index=index,
    )
    return Answered(
        message=message_from_chat(document["choices"][index]["message"], "answer"),
        generation=generation,
        usage=None,
        versions=replace(versions, model=generation.served_model),
        metadata_json=canonical_json({"track": track}),
        ext_json=generation_fields.further_parameters(body),
        at=datetime.now(UTC),
    )


def _priced(gateway: GatewayState, row: SessionRow, asked: Asked, result: _Choices) -> _Choices:
    """Return the choices with their versions, and the first one with the cost of the answer."""
    shown = asked.messages
    system = [shown.message(index) for index in shown.of_role("system")]
    prompt = prompt_version(gateway.secret, system)
    tools = asked.tools_hash if asked.tools else None
    choices = [
        replace(
            choice,
            versions=call_versions(row.versions, choice.versions, prompt=prompt, tools_hash=tools),
        )
        for choice in result.answered
    ]
    generation = choices[0].generation
    cost = gateway.prices.cost(
        (generation.served_model, generation.model), choices[0].usage, asked.at
    )
    if cost is None:
        gateway.metrics.unpriced_calls.inc()
    return _Choices((replace(choices[0], cost=cost), *choices[1:]), result.response_id)


def _events(
    gateway: GatewayState,
    call: PlacedCall,
    asked: Asked,
    result: _Choices | FailedCall,
    live: LiveTrajectory,
) -> Sequence[Event]:
    origin = replace(call.origin, recorded_elsewhere=gateway.sessions.take_over(call.row))
    if isinstance(result, FailedCall):
        return live.call(asked, result, origin)
    return live.call(asked, result.answered[0], origin, result.answered[1:])


def _answer(
    body: Mapping[str, Any],
    row: SessionRow,
    reply: _EngineReply,
    result: _Choices | FailedCall,
    count: int,
) -> Response:
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
    headers["x-atdp-weight-version"] = to_header(result.answered[0].versions.weights or "")
    document = generation_fields.client_answer(body, answer.document)
    if body.get("stream"):
        return StreamingResponse(
            sse.chunks(body, document), 200, headers, media_type="text/event-stream"
        )
    return Response(orjson.dumps(document), 200, headers, media_type="application/json")
