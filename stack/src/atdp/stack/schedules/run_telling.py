"""The last part of a run: one receiver of its schedule is told."""

from datetime import datetime

from atdp.replay import Verdict
from atdp.runtime import Home
from atdp.stack.schedules.run_facts import Facts, outcome_of
from atdp.stack.schedules.run_notices import RunNotice, run_notice_command, send_webhook
from atdp.stack.schedules.run_order import RunOrder


def tell_receiver(home: Home, order: RunOrder, facts: Facts, now: datetime) -> None:
    """Tell the receiver whose index is the fact `receiver`.

    Raises:
        NoticeNotDelivered: it did not take the notice.
        SecretKeyError: the key that signs webhooks cannot be read.
    """
    receiver, notice = order.definition.notify[facts["receiver"]], _notice(order, facts)
    if receiver.webhook is not None:
        send_webhook(home, receiver.webhook, notice, now)
    elif receiver.command is not None:
        run_notice_command(receiver.command, notice)


def _notice(order: RunOrder, facts: Facts) -> RunNotice:
    outcome = outcome_of(facts)
    return RunNotice(
        run_id=order.run_id,
        schedule=order.definition.id,
        logical_time=order.logical_time.isoformat(),
        state="completed",
        verdict=outcome.verdict.value,
        reasons=outcome.reasons,
        model=order.definition.model,
        candidate=outcome.candidate,
        baseline=outcome.baseline,
        evaluation=outcome.evaluation,
        error=outcome.text if outcome.verdict is Verdict.ERROR else None,
    )
