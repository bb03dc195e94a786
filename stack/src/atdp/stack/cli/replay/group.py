"""The verbs `atdp replay …`; each verb has a module of its own."""

import typer

from atdp.stack.cli.exit_codes import VerdictCommand
from atdp.stack.cli.replay import cassette, evaluations, gate, run, teacher
from atdp.stack.cli.verb_groups import make_group


def add_to(app: typer.Typer) -> None:
    """Add the verbs `replay …` to the `atdp` command."""
    group = make_group("replay", "Evaluations of candidates on logged trajectories.")
    group.command(cls=VerdictCommand)(run.run)
    group.command("list")(evaluations.list_all)
    group.command(cls=VerdictCommand)(cassette.cassette)
    group.command(cls=VerdictCommand)(teacher.teacher)
    group.command(cls=VerdictCommand)(gate.gate)
    app.add_typer(group)
