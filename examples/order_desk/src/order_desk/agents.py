"""Agents of the order desk: programs written against the plain `openai` client.

They know nothing of the platform's inside: their `base_url` is the gateway, their `api_key` their
tenant's, and four headers say which session, task and attempt a call belongs to. Tools are carried
out here. What only the agent's side knows (the reward, what the customer said afterwards) is
emitted with the SDK; the gateway ends the trajectory.

Each agent keeps its own count of the events that this caused (`order_desk.tally.Tally`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import openai

from atdp.schemas import Agent, Event, Feedback, Source, TenantId, TrajectoryId, new_event_id
from atdp.sdk import Recorder
from order_desk.episode import Episode, ToolRequest
from order_desk.errors import DemoError
from order_desk.tally import Tally
from order_desk.world import TOOLS, Order

AGENT = Agent(id="order-desk", version="1", framework="openai")
MAX_TOKENS = 32
"""Longest turn of the model in tokens: a tool call takes under fifteen."""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant's way in: its agents' key for the gateway, and the recorder for what they emit themselves."""

    name: str
    api_key: str
    recorder: Recorder


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One attempt at an order for a tenant; `phase` keeps the ids of different phases apart."""

    tenant: str
    phase: str
    order: Order
    attempt: int = 0

    @property
    def trajectory_id(self) -> str:
        """Unique in the demo; the attempt is part of it, so that every attempt is a session of its own."""
        return f"{self.phase}.{self.order.task_id}.{self.attempt}"


@dataclass(frozen=True, kw_only=True)
class Served:
    """What became of a visit. `weight_version` is None when the first model call already failed."""

    visit: Visit
    reward: float
    turns: int
    track: str | None
    weight_version: str | None
    latency_s: float
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServiceDesk:
    """Serves visits of several tenants through one gateway."""

    gateway: str
    tenants: Mapping[str, Tenant]
    tally: Tally
    model: str = "orderdesk"
    concurrency: int = 48
    """Customers served at the same time: what keeps the engine's batch full without queueing in
    front of it."""

    def serve(
        self,
        visits: Sequence[Visit],
        *,
        temperature: float = 1.0,
        on_served: Callable[[Served], None] = lambda _served: None,
    ) -> list[Served]:
        """Serve all visits and return once every event of theirs is acknowledged, in the order of `visits`.

        Raises:
            DemoError: events of the agents could not be delivered.
        """
        served = asyncio.run(self._serve(visits, temperature, on_served))
        for tenant in self.tenants.values():
            report = tenant.recorder.flush(timeout_s=60.0)
            if not report.complete:
                raise DemoError(
                    f"events of tenant {tenant.name} were not delivered ({report.pending} pending, {report.dropped} dropped, "
                    f"{report.failed} failed: {dict(report.reasons)}); see logs/kafka.log in the demo's home"
                )
        return served

    async def _serve(
        self, visits: Sequence[Visit], temperature: float, on_served: Callable[[Served], None]
    ) -> list[Served]:
        slots = asyncio.Semaphore(self.concurrency)
        limits = httpx.Limits(max_connections=self.concurrency, keepalive_expiry=60.0)
        async with (
            httpx.AsyncClient(timeout=120.0, limits=limits, trust_env=False) as http,
            openai.DefaultAsyncHttpxClient(timeout=120.0, trust_env=False) as openai_http,
        ):
            clients = {
                tenant.name: openai.AsyncOpenAI(
                    base_url=f"{self.gateway}/v1",
                    api_key=tenant.api_key,
                    http_client=openai_http,
                    max_retries=0,
                )
                for tenant in self.tenants.values()
            }

            async def one(visit: Visit) -> Served:
                async with slots:
                    agent = _OrderDeskAgent(
                        self, clients[visit.tenant], http, self.tenants[visit.tenant], visit
                    )
                    result = await agent.run(temperature)
                on_served(result)
                return result

            return await asyncio.gather(*(one(visit) for visit in visits))


class _OrderDeskAgent:
    """One agent process's worth of state: a visit in progress."""

    def __init__(
        self,
        desk: ServiceDesk,
        client: openai.AsyncOpenAI,
        http: httpx.AsyncClient,
        tenant: Tenant,
        visit: Visit,
    ) -> None:
        self._desk, self._client, self._http = desk, client, http
        self._tenant, self._visit = tenant, visit
        self._track: str | None = None
        self._version: str | None = None
        self._headers = {
            "X-ATDP-Session": visit.trajectory_id,
            "X-ATDP-Task": visit.order.task_id,
            "X-ATDP-Attempt": str(visit.attempt),
            "X-ATDP-Agent": AGENT.id,
        }

    async def run(self, temperature: float) -> Served:
        self._desk.tally.serve(self._tenant.name, self._visit.trajectory_id)
        began = time.perf_counter()
        episode = Episode(self._visit.order)
        failure: str | None = None
        try:
            while not episode.over:
                episode.reply(*await self._ask(episode, temperature))
        except openai.APIStatusError as error:
            failure = f"HTTP {error.status_code}"
            self._count(error.response.headers)
        except openai.APIConnectionError as error:
            failure = f"no answer ({type(error.__cause__ or error).__name__})"
        latency_s = time.perf_counter() - began
        if failure is None:
            self._after(episode)
        await self._end("failed" if failure else "truncated" if episode.truncated else "completed")
        return Served(
            visit=self._visit,
            reward=episode.reward,
            turns=episode.turns,
            track=self._track,
            weight_version=self._version,
            latency_s=latency_s,
            failure=failure,
        )

    async def _ask(
        self, episode: Episode, temperature: float
    ) -> tuple[str | None, list[ToolRequest]]:
        answer = await self._client.chat.completions.with_raw_response.create(
            model=self._desk.model,
            messages=cast("Any", episode.messages),
            tools=cast("Any", TOOLS),
            temperature=temperature,
            max_tokens=MAX_TOKENS,
            extra_headers=self._headers,
        )
        self._count(answer.headers)
        self._track = self._track or answer.headers.get("x-atdp-track")
        self._version = self._version or answer.headers.get("x-atdp-weight-version")
        message = answer.parse().choices[0].message
        calls = [
            ToolRequest(call_id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in message.tool_calls or []
            if call.type == "function"
        ]
        return message.content, calls

    def _after(self, episode: Episode) -> None:
        """What happens outside the conversation with the model: the reward, and perhaps a word from the customer."""
        visit, recorder = self._visit, self._tenant.recorder
        reward = recorder.emit_reward(
            visit.trajectory_id,
            episode.reward,
            attempt=visit.attempt,
            task_id=visit.order.task_id,
            session_id=visit.trajectory_id,
            source_name="order-desk",
            evaluator_version="1",
        )
        self._desk.tally.emit(self._tenant.name, reward)
        if visit.order.thanks is not None:
            said = recorder.emit_event(_feedback(self._tenant.name, visit, visit.order.thanks))
            self._desk.tally.emit(self._tenant.name, said)

    async def _end(self, status: str) -> None:
        session = self._visit.trajectory_id
        try:
            answer = await self._http.post(
                f"{self._desk.gateway}/v1/sessions/{session}/end",
                headers={"Authorization": f"Bearer {self._tenant.api_key}"},
                json={"status": status},
            )
        except httpx.TransportError as error:
            raise DemoError(
                f"the gateway does not answer ({error!r}); see logs/gateway.log in the demo's home"
            ) from error
        if answer.is_error:
            raise DemoError(
                f"the gateway did not end session {session}: HTTP {answer.status_code} {answer.text[:200]}"
            )
        self._count(answer.headers)

    def _count(self, headers: Mapping[str, str]) -> None:
        self._desk.tally.add(self._tenant.name, "proxy", int(headers.get("x-atdp-events", "0")))


def _feedback(tenant: str, visit: Visit, text: str) -> Event:
    event_id = new_event_id()
    return Event(
        event_id=event_id,
        tenant_id=TenantId(tenant),
        trajectory_id=TrajectoryId(visit.trajectory_id),
        attempt=visit.attempt,
        producer_id=f"feedback-{event_id}",
        seq=0,
        occurred_at=datetime.now(UTC),
        session_id=visit.trajectory_id,
        task_id=visit.order.task_id,
        agent=AGENT,
        source=Source(format="sdk"),
        status="ok",
        body=Feedback(type="comment", text=text, actor="customer"),
    )
