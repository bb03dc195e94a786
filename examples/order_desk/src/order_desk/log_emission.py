"""Emission of the clerks' logs into the platform: text trajectories, emitted with the SDK.

Such logs are the data of a company before it has a platform: conversations and outcomes, without
token ids and log-probabilities. They are enough for supervised learning, but not for reinforcement
learning, and governance marks every event accordingly.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atdp.schemas import EventId, OutcomeResult
from order_desk.emitted_events import EmittedEvents
from order_desk.errors import DemoError
from order_desk.logged_episodes import LoggedCall, LoggedEpisode
from order_desk.order_task import TOOLS
from order_desk.visits import TenantAccess


def emit_logged_episodes(
    tenants: Mapping[str, TenantAccess],
    episodes: Sequence[tuple[str, LoggedEpisode]],
    emitted: EmittedEvents,
    on_emitted: Callable[[], None] = lambda: None,
) -> None:
    """Emit logged episodes, each with its tenant; return once the event log has them.

    Raises:
        DemoError: some were not delivered.
    """
    for tenant, episode in episodes:
        emitted.begin(tenant, f"log.{episode.order.task_id}")
        emitted.add_ids(tenant, *_emit(tenants[tenant], episode))
        emitted.add(tenant, "sdk")  # the start, whose id the SDK does not return
        on_emitted()
    for access in tenants.values():
        report = access.recorder.flush(timeout_s=120.0)
        if not report.complete:
            raise DemoError(
                f"The logs of tenant {access.name} were not delivered: {report.pending} pending, "
                f"{dict(report.reasons)}."
            )


def _emit(tenant: TenantAccess, episode: LoggedEpisode) -> list[EventId]:
    """Emit one conversation; return the ids of its events except the first, its start."""
    order = episode.order
    emitted = []
    with tenant.recorder.trajectory(
        trajectory_id=f"log.{order.task_id}",
        task_id=order.task_id,
        session_id=f"log.{order.task_id}",
        agent="clerk",
    ) as trajectory:
        emitted.append(
            trajectory.observe([{"role": "user", "content": order.message}], tools=TOOLS)
        )
        for number, call in enumerate(episode.calls):
            call_id = f"call-{number}"
            result: OutcomeResult = "ok" if call.ok else "error"
            emitted += [
                trajectory.generation(_chat_message(call, call_id)),
                trajectory.tool_call(
                    call.name, call.arguments, call_id=call_id, side_effect="none"
                ),
                trajectory.outcome(call.reply, call_id=call_id, name=call.name, result=result),
            ]
        emitted.append(trajectory.generation(episode.answer))
        if order.thanks is not None:
            emitted.append(trajectory.feedback("comment", text=order.thanks, actor="customer"))
        emitted.append(
            trajectory.reward(episode.reward, source_name="order-desk", evaluator_version="1")
        )
        ended = trajectory.end()
    return emitted if ended is None else [*emitted, ended]


def _chat_message(call: LoggedCall, call_id: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
