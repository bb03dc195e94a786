"""`atdp control …`: the history of releases, and the verbs of the person on duty."""

import typer

from atdp.stack.cli.control import canary, decisions, reports
from atdp.stack.cli.exit_codes import VerdictCommand
from atdp.stack.cli.verb_groups import make_group


def add_to(app: typer.Typer) -> None:
    """Add the verbs `control …` to the `atdp` command."""
    control = make_group(
        "control", "Releases: what was decided, on which evidence, and what to do next."
    )
    control.command()(reports.history)
    control.command()(reports.status)
    control.command()(decisions.bootstrap)
    control.command()(decisions.promote)
    control.command()(decisions.rollback)
    control.command()(decisions.reconcile)

    candidates = make_group("candidate", "Versions that may become live.")
    candidates.command("list")(reports.list_candidates)
    candidates.command()(decisions.register)
    control.add_typer(candidates)

    canaries = make_group("canary", "The version under trial.")
    canaries.command()(canary.start)
    canaries.command(cls=VerdictCommand)(canary.judge)
    canaries.command()(canary.advance)
    canaries.command()(canary.resume)
    control.add_typer(canaries)

    app.add_typer(control)
