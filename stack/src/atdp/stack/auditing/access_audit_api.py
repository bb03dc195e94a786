"""`GET /v1/access/audit`: accesses to raw data over HTTP, for auditors, stewards and operators."""

import threading
from typing import Any

from fastapi import APIRouter, Request

from atdp.runtime import Home, HttpProblem, KeyStore, PlatformError, TokenVerifier, authenticate
from atdp.stack.auditing.access_audit import AccessAudit, AccessAuditDenied


def access_audit_router(
    home: Home,
    *,
    keys: KeyStore | None = None,
    tokens: TokenVerifier | None = None,
    audit: AccessAudit | None = None,
) -> APIRouter:
    """Return the route for an application that handles `atdp.runtime.HttpProblem`.

    `tokens` checks the tokens of people who signed in; None: only API keys are taken.
    """
    audit = audit or AccessAudit(home)
    opening = threading.Lock()
    routes = APIRouter()

    @routes.get("/v1/access/audit")
    def accesses(request: Request, tenant: str | None = None) -> dict[str, Any]:
        """Return who asked to see raw data, of the tenant of the caller."""
        nonlocal keys
        with opening:
            keys = keys or KeyStore(home.keys_db)
        caller = authenticate(request, keys, "audit", tokens=tokens).principal
        try:
            return {"accesses": audit.entries(caller, tenant)}
        except AccessAuditDenied as error:
            raise HttpProblem(403, "access_denied", str(error)) from error
        except PlatformError as error:
            raise HttpProblem(503, "register_unavailable", str(error), retry_after_s=1) from error

    return routes
