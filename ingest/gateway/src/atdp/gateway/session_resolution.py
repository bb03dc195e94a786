"""From a request to the trajectory that it belongs to: by its session key, or by headers.

A session key names the session that `POST /v1/sessions` opened, and nothing else is needed. With
any other key the request names its session by `X-ATDP-Session`, `X-ATDP-Trajectory` (default: the
session), `X-ATDP-Task`, `X-ATDP-Attempt` (default 0) and `X-ATDP-Agent`, percent-encoded where they
are not ASCII. Without a session every call is a trajectory of its own, which the answer's
`x-atdp-trajectory` names.
"""

import json
from datetime import UTC, datetime
from uuid import uuid4

from fastapi import Request
from fastapi.datastructures import Headers

from atdp.gateway.header_text import from_header
from atdp.gateway.request_body import checked_id
from atdp.gateway.session_store import NewSession, SessionRow
from atdp.gateway.state import GatewayState
from atdp.runtime import Caller, HttpProblem, tenant_of

DEFAULT_AGENT = "unnamed"

# Nine digits fit the signed 32-bit attempt of an event.
_ATTEMPT_DIGITS = 9


def trajectory_of(gateway: GatewayState, caller: Caller, request: Request) -> SessionRow:
    """Return the trajectory attempt that a model call belongs to; a new one is created.

    Raises:
        HttpProblem: 422 for a malformed header, 409 when the trajectory has ended.
    """
    tenant = tenant_of(caller, request)
    bound = bound_trajectory(caller)
    if bound is None:
        row = _by_headers(gateway, request, tenant)
    else:
        row = _by_session_key(gateway, tenant, *bound)
    if row.ended:
        raise HttpProblem(
            409,
            "trajectory_ended",
            f"trajectory {row.trajectory_id!r} has ended; open a new session or attempt",
        )
    return row


def session_binding(row: SessionRow) -> str:
    """Return the JSON text that a session key carries: its session, trajectory and attempt."""
    return json.dumps(
        {"session_id": row.session_id, "trajectory_id": row.trajectory_id, "attempt": row.attempt}
    )


def bound_trajectory(caller: Caller) -> tuple[str, int] | None:
    """Return trajectory and attempt of a session key.

    None for a key of a tenant, which is valid for all trajectories of the tenant.
    """
    if caller.principal.session is None:
        return None
    bound = json.loads(caller.principal.session)
    return bound["trajectory_id"], bound["attempt"]


def _by_session_key(
    gateway: GatewayState, tenant: str, trajectory_id: str, attempt: int
) -> SessionRow:
    row = gateway.sessions.find(tenant, trajectory_id, attempt)
    if row is None:
        raise HttpProblem(
            409, "session_unknown", "this session key's session is unknown here; open a new session"
        )
    return row


def _by_headers(gateway: GatewayState, request: Request, tenant: str) -> SessionRow:
    headers = request.headers
    session_id = _header_id(headers, "X-ATDP-Session") or uuid4().hex
    attempt = headers.get("x-atdp-attempt", "0")
    if not attempt.isascii() or not attempt.isdigit() or len(attempt) > _ATTEMPT_DIGITS:
        raise HttpProblem(422, "bad_attempt", "X-ATDP-Attempt must be a whole number from 0")
    new = NewSession(
        tenant=tenant,
        trajectory_id=_header_id(headers, "X-ATDP-Trajectory") or session_id,
        attempt=int(attempt),
        session_id=session_id,
        task_id=_header_id(headers, "X-ATDP-Task"),
        agent_id=_header_id(headers, "X-ATDP-Agent") or DEFAULT_AGENT,
    )
    return gateway.sessions.open(new, datetime.now(UTC))


def _header_id(headers: Headers, name: str) -> str | None:
    value = headers.get(name)
    return None if value is None else checked_id(from_header(value, name), name)
