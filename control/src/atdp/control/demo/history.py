"""The clerks' logs on their way into the platform: text trajectories, emitted with the SDK.

They are what a company has before it has a platform: conversations and outcomes, no token ids and no log-probabilities.
Good enough to learn to speak from (supervised), not to learn by reinforcement: governance says so on every event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atdp.control.demo.agents import Tenant
from atdp.control.demo.errors import DemoError
from atdp.control.demo.logs import Call, LoggedEpisode
from atdp.control.demo.orderdesk import TOOLS
from atdp.control.demo.tally import Tally
from atdp.schemas import Feedback

_FIXED_EVENTS = 5
"""Start, observation, answer, reward, end."""
_EVENTS_PER_CALL = 3
"""The model's turn, the call, its outcome."""


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
        tally.serve(tenant, _emit(tenants[tenant], episode))
        said_thanks = episode.order.thanks is not None
        tally.add(tenant, "sdk", _FIXED_EVENTS + _EVENTS_PER_CALL * len(episode.calls) + said_thanks)
        on_emitted()
    for access in tenants.values():
        report = access.recorder.flush(timeout_s=120.0)
        if not report.complete:
            raise DemoError(
                f"the logs of tenant {access.name} were not delivered: {report.pending} pending, {dict(report.reasons)}"
            )


def _emit(tenant: Tenant, episode: LoggedEpisode) -> str:
    """Emit one conversation; returns the id of its trajectory."""
    order = episode.order
    with tenant.recorder.trajectory(
        trajectory_id=f"log.{order.task_id}",
        task_id=order.task_id,
        session_id=f"log.{order.task_id}",
        agent="clerk",
    ) as trajectory:
        trajectory.observe([{"role": "user", "content": order.message}], tools=TOOLS)
        for number, call in enumerate(episode.calls):
            call_id = f"call-{number}"
            trajectory.generation(_asking(call, call_id))
            trajectory.tool_call(call.name, call.arguments, call_id=call_id, side_effect="none")
            trajectory.outcome(
                call.reply, call_id=call_id, name=call.name, result="ok" if call.ok else "error"
            )
        trajectory.generation(episode.answer)
        if order.thanks is not None:
            trajectory.feedback(Feedback(type="comment", text=order.thanks, actor="customer"))
        trajectory.reward(episode.reward, source_name="order-desk", evaluator_version="1")
    return trajectory.trajectory_id


def _asking(call: Call, call_id: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
