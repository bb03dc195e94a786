"""The service desk: many agents at the same time, for several tenants, through one gateway.

The desk counts the events that its agents cause (`order_desk.emitted_events`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx
import openai

from order_desk.emitted_events import EmittedEvents
from order_desk.errors import DemoError
from order_desk.order_desk_agent import AgentConnections, OrderDeskAgent
from order_desk.visits import TenantAccess, Visit, VisitResult

_CALL_TIMEOUT_S = 120.0
_KEEPALIVE_S = 60.0
_FLUSH_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDesk:
    """Serves visits of several tenants through one gateway."""

    gateway: str
    tenants: Mapping[str, TenantAccess]
    emitted: EmittedEvents
    model: str = "orderdesk"
    concurrency: int = 48
    """Customers served at the same time. It keeps the engine's batch full without a queue in front
    of the engine."""

    def serve(
        self,
        visits: Sequence[Visit],
        *,
        temperature: float = 1.0,
        on_served: Callable[[VisitResult], None] = lambda _result: None,
    ) -> list[VisitResult]:
        """Serve all visits and return their results in the order of `visits`.

        Returns once every event of theirs is acknowledged.

        Raises:
            DemoError: events of the agents could not be delivered.
        """
        results = asyncio.run(self._serve(visits, temperature, on_served))
        for tenant in self.tenants.values():
            report = tenant.recorder.flush(timeout_s=_FLUSH_TIMEOUT_S)
            if not report.complete:
                raise DemoError(
                    f"Events of tenant {tenant.name} were not delivered ({report.pending} pending, "
                    f"{report.dropped} dropped, {report.failed} failed: {dict(report.reasons)}). "
                    "See logs/kafka.log in the demo's home."
                )
        return results

    async def _serve(
        self,
        visits: Sequence[Visit],
        temperature: float,
        on_served: Callable[[VisitResult], None],
    ) -> list[VisitResult]:
        slots = asyncio.Semaphore(self.concurrency)
        limits = httpx.Limits(max_connections=self.concurrency, keepalive_expiry=_KEEPALIVE_S)
        async with (
            httpx.AsyncClient(timeout=_CALL_TIMEOUT_S, limits=limits, trust_env=False) as http,
            openai.DefaultAsyncHttpxClient(timeout=_CALL_TIMEOUT_S, trust_env=False) as openai_http,
        ):
            connections = {
                tenant.name: self._connections(
                    http,
                    openai.AsyncOpenAI(
                        base_url=f"{self.gateway}/v1",
                        api_key=tenant.api_key,
                        http_client=openai_http,
                        max_retries=0,
                    ),
                )
                for tenant in self.tenants.values()
            }

            async def serve_one(visit: Visit) -> VisitResult:
                async with slots:
                    tenant = self.tenants[visit.tenant]
                    agent = OrderDeskAgent(connections[visit.tenant], tenant, visit)
                    result = await agent.run(temperature)
                on_served(result)
                return result

            return await asyncio.gather(*(serve_one(visit) for visit in visits))

    def _connections(self, http: httpx.AsyncClient, client: openai.AsyncOpenAI) -> AgentConnections:
        return AgentConnections(
            gateway=self.gateway,
            model=self.model,
            openai=client,
            http=http,
            emitted=self.emitted,
        )
