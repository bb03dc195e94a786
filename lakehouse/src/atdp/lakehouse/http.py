"""`POST /v1/sql`: the lake's SQL over HTTP, under the caller's API key or token.

The tenant of the caller decides which files are listed. The authorizer decides whether the caller
may read all of these for analytics. A caller that may audit but not query reads the tables of
decisions, `audit`, `quarantine_index`, `evaluations` and `control_events`, and no other. An
operator sees every tenant, or acts for the one that `X-ATDP-Tenant` names. Statements run in worker
threads, a few at a time, each with limits of its own. When too many are running, the answer is 429
with a time to wait.
"""

import io
import threading
from typing import Literal

import pyarrow as pa
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from atdp.access import Authorizer, TenantData, open_authorizer
from atdp.lakehouse.connection import QueryLimits, connect
from atdp.lakehouse.errors import (
    CatalogError,
    LakehouseError,
    QueryFailed,
    QueryRefused,
    RulesUnreadable,
)
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.query_result import QueryResult
from atdp.lakehouse.visible_files import ANALYTICS, AUDIT
from atdp.runtime import (
    ANY_TENANT,
    Callers,
    ConcurrencyLimit,
    Home,
    HttpProblem,
    LimitedRoute,
    Principal,
    utc_now,
)

AnswerFormat = Literal["json", "csv", "arrow"]

_MEDIA_TYPE = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}

HTTP_LIMITS = QueryLimits(
    memory="512MB", threads=1, timeout_s=30.0, max_rows=100_000, max_bytes=64 * 1024 * 1024
)
"""Limits of one request."""

_STATEMENTS = 4
"""Statements at a time. A small machine gains nothing from more: one may take `HTTP_LIMITS.memory`,
and its answer about ten times `max_bytes` while it is written as JSON."""


class SqlQuestion(BaseModel):
    """One SELECT and the format of its answer."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=100_000)
    format: AnswerFormat = "json"


class _SharedLake:
    """The lake of a home, opened at the first question, since the home may be empty before."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lake: Lake | None = None
        self._lock = threading.Lock()

    def lake(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = open_lake(self._home)
            return self._lake


def sql_router(
    home: Home,
    callers: Callers,
    *,
    limits: QueryLimits = HTTP_LIMITS,
    authorizer: Authorizer | None = None,
) -> APIRouter:
    """Return the route for an application that handles `atdp.runtime.HttpProblem`.

    `authorizer` is by default that of the home, with the access policies in its register.
    """
    shared = _SharedLake(home)
    limit = ConcurrencyLimit(_STATEMENTS, of="statements are", code="too_many_statements")
    authorizer = authorizer or open_authorizer(home)
    routes = APIRouter(route_class=LimitedRoute)

    @routes.post("/v1/sql")
    def sql(question: SqlQuestion, request: Request) -> Response:
        """Answer one SELECT.

        The answer is JSON `{"columns", "rows", "snapshots"}`, CSV with a header, or an Arrow IPC
        stream.
        """
        principal = _caller(request, callers)
        tenant, purpose = scope_of(principal, request.headers.get("x-atdp-tenant"), authorizer)
        with limit.admitted():
            try:
                with connect(
                    lake=shared.lake(), tenant=tenant, purpose=purpose, limits=limits
                ) as connection:
                    result = connection.sql(question.query)
                    snapshots: dict[str, str] = {
                        name: str(id_) for name, id_ in connection.snapshots.items()
                    }
            except QueryRefused as error:
                raise HttpProblem(400, "statement_refused", str(error)) from error
            except QueryFailed as error:
                raise HttpProblem(400, "query_failed", str(error)) from error
            except CatalogError as error:
                raise HttpProblem(503, "lake_unavailable", str(error), retry_after_s=1) from error
            except RulesUnreadable as error:
                raise HttpProblem(503, "rules_unreadable", str(error), retry_after_s=1) from error
            except LakehouseError as error:
                raise HttpProblem(500, "lake_error", str(error)) from error
        return Response(
            _body(result, question.format, snapshots), media_type=_MEDIA_TYPE[question.format]
        )

    return routes


def scope_of(
    principal: Principal, named_tenant: str | None, authorizer: Authorizer
) -> tuple[str | None, str | None]:
    """Return tenant and purpose of a caller's connection; None = all.

    Raises:
        HttpProblem: 403 when the caller may not read all data of the tenant for analytics, 503 when
            the access policies cannot be read.
    """
    tenant = named_tenant or principal.tenant
    if not principal.may("query"):
        return _audited_tenant(principal, tenant), AUDIT
    if tenant == ANY_TENANT and principal.may_act_for(tenant):
        return None, None
    resource = TenantData(tenant=tenant)
    decision = authorizer.authorize(principal, ANALYTICS, resource, utc_now())
    if decision.reason == "policies_unavailable":
        raise HttpProblem(503, decision.reason, decision.explanation, retry_after_s=1)
    if not decision.allowed:
        raise HttpProblem(
            403, "access_denied", f"you may not query this tenant's data: {decision.explanation}"
        )
    return tenant, ANALYTICS


def _caller(request: Request, callers: Callers) -> Principal:
    """Return a caller that may run SQL, or only read the tables of an auditor."""
    try:
        return callers.require(request, "query")
    except HttpProblem as refused:
        if refused.code != "role_denied":
            raise
        try:
            return callers.require(request, "audit")
        except HttpProblem:
            raise refused from None


def _audited_tenant(principal: Principal, tenant: str) -> str:
    if not (principal.may("audit") and principal.may_act_for(tenant)):
        raise HttpProblem(
            403, "access_denied", "you may read the audit tables of your own tenant only"
        )
    return tenant


def _body(result: QueryResult, form: AnswerFormat, snapshots: dict[str, str]) -> bytes:
    if form == "csv":
        return result.to_csv().encode()
    if form == "arrow":
        table = result.arrow()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()
    return result.to_json_document(snapshots=snapshots).encode()
