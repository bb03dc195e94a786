"""The agent of the order desk: a program written against the plain `openai` client.

It knows nothing of the platform's inside: its `base_url` is the gateway, its `api_key` its
tenant's, and four headers say which session, task and attempt a call belongs to. It carries out the
tools itself. Values that only the agent's side knows (the reward, the customer's later comment) are
emitted with the SDK; the gateway ends the trajectory.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
import openai

from atdp.schemas import Agent
from atdp.sdk import JudgedTrajectory
from order_desk.emitted_events import EmittedEvents
from order_desk.episode import Episode, ToolRequest
from order_desk.errors import DemoError
from order_desk.order_task import TOOLS
from order_desk.visits import TenantAccess, Visit, VisitResult

AGENT = Agent(id="order-desk", version="1", framework="openai")
MAX_TOKENS = 32
"""Longest turn of the model in tokens: a tool call takes fewer than fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConnections:
    """The clients and addresses that an agent uses."""

    gateway: str
    model: str
    openai: openai.AsyncOpenAI
    http: httpx.AsyncClient
    emitted: EmittedEvents


class OrderDeskAgent:
    """One visit in progress."""

    def __init__(self, connections: AgentConnections, tenant: TenantAccess, visit: Visit) -> None:
        """Prepare the visit; nothing is sent."""
        self._connections, self._tenant, self._visit = connections, tenant, visit
        self._track: str | None = None
        self._version: str | None = None
        self._headers = {
            "X-ATDP-Session": visit.trajectory_id,
            "X-ATDP-Task": visit.order.task_id,
            "X-ATDP-Attempt": str(visit.attempt),
            "X-ATDP-Agent": AGENT.id,
        }

    async def run(self, temperature: float) -> VisitResult:
        """Serve the customer to the end."""
        self._connections.emitted.begin(self._tenant.name, self._visit.trajectory_id)
        began = time.perf_counter()
        episode = Episode(self._visit.order)
        failure: str | None = None
        try:
            while not episode.over:
                episode.reply(*await self._ask_model(episode, temperature))
        except openai.APIStatusError as error:
            failure = f"HTTP {error.status_code}"
            self._count(error.response.headers)
        except openai.APIConnectionError as error:
            failure = f"no answer ({type(error.__cause__ or error).__name__})"
        latency_s = time.perf_counter() - began
        if failure is None:
            self._emit_reward_and_comment(episode)
        await self._end(_status(episode, failure))
        return VisitResult(
            visit=self._visit,
            reward=episode.reward,
            turns=episode.turns,
            track=self._track,
            weight_version=self._version,
            latency_s=latency_s,
            failure=failure,
        )

    async def _ask_model(
        self, episode: Episode, temperature: float
    ) -> tuple[str | None, list[ToolRequest]]:
        client = self._connections.openai
        answer = await client.chat.completions.with_raw_response.create(
            model=self._connections.model,
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

    def _emit_reward_and_comment(self, episode: Episode) -> None:
        """Emit the reward and the customer's comment, if there is one; the model sees neither."""
        visit, recorder, emitted = self._visit, self._tenant.recorder, self._connections.emitted
        judged: JudgedTrajectory = {
            "attempt": visit.attempt,
            "task_id": visit.order.task_id,
            "session_id": visit.trajectory_id,
        }
        reward = recorder.reward(
            episode.reward,
            trajectory_id=visit.trajectory_id,
            source_name="order-desk",
            evaluator_version="1",
            **judged,
        )
        emitted.add_ids(self._tenant.name, reward)
        if visit.order.thanks is not None:
            comment = recorder.feedback(
                "comment",
                trajectory_id=visit.trajectory_id,
                text=visit.order.thanks,
                actor="customer",
                **judged,
            )
            emitted.add_ids(self._tenant.name, comment)

    async def _end(self, status: str) -> None:
        session = self._visit.trajectory_id
        try:
            answer = await self._connections.http.post(
                f"{self._connections.gateway}/v1/sessions/{session}/end",
                headers={"Authorization": f"Bearer {self._tenant.api_key}"},
                json={"status": status},
            )
        except httpx.TransportError as error:
            raise DemoError(
                f"The gateway does not answer ({error!r}). See logs/gateway.log in the demo's home."
            ) from error
        if answer.is_error:
            raise DemoError(
                f"The gateway did not end session {session}: "
                f"HTTP {answer.status_code} {answer.text[:200]}"
            )
        self._count(answer.headers)

    def _count(self, headers: Mapping[str, str]) -> None:
        events = int(headers.get("x-atdp-events", "0"))
        self._connections.emitted.add(self._tenant.name, "proxy", events)


def _status(episode: Episode, failure: str | None) -> str:
    if failure is not None:
        return "failed"
    return "truncated" if episode.truncated else "completed"
