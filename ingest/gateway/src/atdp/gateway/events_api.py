"""`POST /v1/events`: a batch of events, acknowledged when Kafka has acknowledged them.

Body: `{"events": [<event in its JSON form>, …]}`. Each event is checked alone: valid events are
appended even if others are refused, and the answer `{"accepted": n, "rejected": [{"index",
"error"}]}` names the refused ones. A request may be sent again with the same event ids, as often as
needed: each event lands once. The header `X-ATDP-Redelivery: 1` marks its records as sent again.

Status 200: every valid event is durable. 422: no event was valid. 503: for at least one event it is
unknown whether it is in the log; send the whole request again, marked as redelivery.
"""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from atdp.gateway.errors import EventLogUnavailable, EventRejected, log_unavailable
from atdp.gateway.request_body import read_object
from atdp.gateway.state import GatewayState, state_of
from atdp.runtime import Caller, HttpProblem, authenticate, tenant_problem
from atdp.schemas import (
    Annotation,
    Event,
    InvalidRecord,
    UnsignedRecord,
    event_from_json,
    is_judgement,
)

router = APIRouter()


@router.post("/v1/events")
async def post_events(request: Request) -> JSONResponse:
    """Accept a batch of events."""
    gateway = state_of(request)
    caller = authenticate(request, gateway.keys, "emit", "reward")
    document = await read_object(request, gateway.settings.max_body_bytes)
    events = document.get("events")
    if not isinstance(events, list):
        raise HttpProblem(422, "field_missing", "the body needs a list under 'events'")
    if len(events) > gateway.settings.max_events:
        raise HttpProblem(
            413,
            "too_many_events",
            f"{len(events)} events; at most {gateway.settings.max_events} in one request",
        )
    redelivery = request.headers.get("x-atdp-redelivery") == "1"
    records = [_record(gateway, caller, event, redelivery) for event in events]

    async def still_wanted() -> bool:
        return not await request.is_disconnected()

    results = await gateway.emitter.append(
        records, caller.signing_key, source="http", still_wanted=still_wanted
    )
    unknown = [result for result in results if isinstance(result, EventLogUnavailable)]
    if unknown:
        raise log_unavailable(
            f"{len(unknown)} of {len(events)} events were not acknowledged: {unknown[0]}"
        )
    rejected = [
        {"index": index, "error": str(result)}
        for index, result in enumerate(results)
        if isinstance(result, EventRejected)
    ]
    accepted = len(events) - len(rejected)
    status = 422 if rejected and not accepted else 200
    return JSONResponse({"accepted": accepted, "rejected": rejected}, status)


def _record(
    gateway: GatewayState, caller: Caller, document: Any, redelivery: bool
) -> UnsignedRecord | EventRejected:
    """Check one event of a request and return its record."""
    if not isinstance(document, dict):
        return EventRejected("not an object; see the JSON form of events in the reference")
    try:
        event = event_from_json(document)
    except InvalidRecord as error:
        return EventRejected(f"not a valid event: {error}")
    if not (caller.principal.may("emit") or _is_judgement(event)):
        return EventRejected(
            f"a key of role {caller.principal.role} sends rewards, feedback and verdicts of judges "
            "only; use a key of role agent"
        )
    if not caller.principal.may_act_for(event.tenant_id):
        return EventRejected("tenant_id is not the key's tenant; use a key of that tenant")
    if (problem := tenant_problem(event.tenant_id)) is not None:
        return EventRejected(f"tenant_id: {problem}")
    if not _is_event_id(event.event_id):
        return EventRejected(
            "event_id must be a UUID as text in lower case, e.g. "
            "0197a3f0-7c1e-7d3a-9b52-3f1c2a4e5d60 (version 7 keeps order): "
            "it distinguishes a copy of an event from another event"
        )
    bound = caller.principal.session
    if bound is not None and not bound.contains(
        event.trajectory_id, event.attempt, event.session_id
    ):
        return EventRejected(
            "session_id, trajectory_id and attempt are not those of the key's session: "
            "a session key is valid for its own session only; use a key of the tenant"
        )
    return gateway.emitter.record(event, redelivery=redelivery)


def _is_judgement(event: Event) -> bool:
    name = event.body.name if isinstance(event.body, Annotation) else None
    return is_judgement(event.kind, name)


def _is_event_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
