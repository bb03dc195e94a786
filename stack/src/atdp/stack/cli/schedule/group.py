"""The verbs `atdp schedule …`."""

import typer

from atdp.stack.cli.exit_codes import VerdictCommand
from atdp.stack.cli.schedule import changes, definitions, runs, trend
from atdp.stack.cli.verb_groups import make_group


def add_to(app: typer.Typer) -> None:
    """Add the verbs `schedule …` to the `atdp` command."""
    group = make_group(
        "schedule", "Scheduled evaluations: by the clock, on new data, or on request."
    )
    group.command()(definitions.add)
    group.command()(definitions.apply)
    group.command("list")(changes.list_schedules)
    group.command()(changes.show)
    group.command()(changes.pause)
    group.command()(changes.resume)
    group.command()(changes.remove)
    group.command()(changes.webhook_secret)
    group.command(cls=VerdictCommand)(runs.trigger)
    group.command()(runs.backfill)
    group.command("runs")(runs.list_runs)
    group.command()(trend.report)
    app.add_typer(group)
