"""The clerks' logs on their way into the platform: text trajectories, emitted with the SDK.

They are what a company has before it has a platform: conversations and outcomes, no token ids and
no log-probabilities. Good enough to learn to speak from (supervised), not to learn by
reinforcement: governance says so on every event.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atdp.schemas import EventId, Feedback, OutcomeResult
from order_desk.agents import Tenant
from order_desk.errors import DemoError
from order_desk.logs import Call, LoggedEpisode
from order_desk.tally import Tally
from order_desk.world import TOOLS


def emit_history(
    tenants: Mapping[str, Tenant],
    episodes: Sequence[tuple[str, LoggedEpisode]],
    tally: Tally,
    on_emitted: Callable[[], None] = lambda: None,
) -> None:
    """Emit logged episodes, each with its tenant, and return when the event log has them.

    Raises:
        DemoError: some were not delivered.
    """
    for tenant, episode in episodes:
        tally.serve(tenant, f"log.{episode.order.task_id}")
        tally.emit(tenant, *_emit(tenants[tenant], episode))
        tally.add(tenant, "sdk")  # the start, of which the SDK tells no id
        on_emitted()
    for access in tenants.values():
        report = access.recorder.flush(timeout_s=120.0)
        if not report.complete:
            raise DemoError(
                f"the logs of tenant {access.name} were not delivered: {report.pending} pending, {dict(report.reasons)}"
            )


def _emit(tenant: Tenant, episode: LoggedEpisode) -> list[EventId]:
    """Emit one conversation; returns the ids of its events but the first, its start."""
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
                trajectory.generation(_asking(call, call_id)),
                trajectory.tool_call(
                    call.name, call.arguments, call_id=call_id, side_effect="none"
                ),
                trajectory.outcome(call.reply, call_id=call_id, name=call.name, result=result),
            ]
        emitted.append(trajectory.generation(episode.answer))
        if order.thanks is not None:
            said = Feedback(type="comment", text=order.thanks, actor="customer")
            emitted.append(trajectory.feedback(said))
        emitted.append(
            trajectory.reward(episode.reward, source_name="order-desk", evaluator_version="1")
        )
        ended = trajectory.end()
    return emitted if ended is None else [*emitted, ended]


def _asking(call: Call, call_id: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
