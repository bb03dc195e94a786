"""`POST /v1/sql`: the lake's SQL over HTTP, under the caller's API key.

The key decides everything: its tenant which files are listed, its role whether it may ask at all
and for which purpose. An operator sees every tenant, or acts for the one that `X-ATDP-Tenant`
names. Statements run in worker threads, a few at a time, each with limits of its own; one that
finds no free place is told to come back.
"""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pyarrow as pa
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from atdp.lakehouse.connection import ANALYTICS, Limits, connect
from atdp.lakehouse.errors import CatalogError, LakehouseError, QueryFailed, QueryRefused
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.result import Result
from atdp.runtime import ANY_TENANT, Home, HttpProblem, KeyStore, Principal, authenticate

Format = Literal["json", "csv", "arrow"]

_MEDIA_TYPE = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}

HTTP_LIMITS = Limits(
    memory="512MB", threads=1, timeout_s=30.0, max_rows=100_000, max_bytes=64 * 1024 * 1024
)

_PLACES = 4
"""Statements at a time. More queue in vain on a small machine: one may take `HTTP_LIMITS.memory`,
and its answer some ten times `max_bytes` while it is written as JSON."""


class SqlQuestion(BaseModel):
    """One SELECT and the form of its answer."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=100_000)
    format: Format = "json"


class _Place:
    """Opens the lake and the keys at the first question, since the home may still be empty before."""

    def __init__(self, home: Home, keys: KeyStore | None) -> None:
        self._home, self._keys, self._lake = home, keys, None
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_PLACES)

    _lake: Lake | None

    def keys(self) -> KeyStore:
        with self._lock:
            if self._keys is None:
                self._keys = KeyStore(self._home.keys_db)
            return self._keys

    def lake(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = open_lake(self._home)
            return self._lake

    @contextmanager
    def taken(self) -> Iterator[None]:
        if not self._free.acquire(blocking=False):
            raise HttpProblem(
                429,
                "too_many_statements",
                f"{_PLACES} statements are running; try again",
                retry_after_s=1,
            )
        try:
            yield
        finally:
            self._free.release()


def router(home: Home, *, keys: KeyStore | None = None, limits: Limits = HTTP_LIMITS) -> APIRouter:
    """The route, for an application that handles `atdp.runtime.HttpProblem`."""
    place = _Place(home, keys)
    routes = APIRouter()

    @routes.post("/v1/sql")
    def sql(question: SqlQuestion, request: Request) -> Response:
        """Answer one SELECT: JSON `{"columns", "rows", "snapshots"}`, CSV with a header, or an Arrow IPC stream."""
        principal = authenticate(request, place.keys(), "query").principal
        tenant, purpose = scope_of(principal, request.headers.get("x-atdp-tenant"))
        with place.taken():
            try:
                with connect(
                    lake=place.lake(), tenant=tenant, purpose=purpose, limits=limits
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
            except LakehouseError as error:
                raise HttpProblem(500, "lake_error", str(error)) from error
        return Response(
            _body(result, question.format, snapshots), media_type=_MEDIA_TYPE[question.format]
        )

    return routes


def scope_of(principal: Principal, named_tenant: str | None) -> tuple[str | None, str | None]:
    """Tenant and purpose of a caller's connection; `None` = all.

    Raises:
        HttpProblem: 403 when the caller names a tenant that is not its own, or has no tenant and is
            no operator.
    """
    tenant = named_tenant or principal.tenant
    if principal.may_act_for(tenant) and tenant == ANY_TENANT:
        return None, None
    if tenant == ANY_TENANT or not principal.may_act_for(tenant):
        raise HttpProblem(403, "tenant_denied", f"this key is of another tenant than {tenant!r}")
    if not principal.may("read:analytics"):
        raise HttpProblem(403, "role_denied", f"role {principal.role!r} may not read for analytics")
    return tenant, ANALYTICS


def _body(result: Result, form: Format, snapshots: dict[str, str]) -> bytes:
    if form == "csv":
        return result.to_csv().encode()
    if form == "arrow":
        table = result.arrow()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()
    return result.to_json_document(snapshots=snapshots).encode()
