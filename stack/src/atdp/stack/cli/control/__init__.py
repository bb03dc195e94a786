"""`atdp control …`: the history of releases, and the verbs of the person on duty."""

import typer

from atdp.stack.cli.control import canary, decisions, reports


def add_to(app: typer.Typer) -> None:
    """Add the group of verbs."""
    control = _group(
        "control", "Releases: what was decided, on which evidence, and what to do next."
    )
    control.command()(reports.history)
    control.command()(reports.status)
    control.command()(decisions.bootstrap)
    control.command()(decisions.promote)
    control.command()(decisions.rollback)
    control.command()(decisions.reconcile)

    candidates = _group("candidate", "Versions that may become live.")
    candidates.command("list")(reports.list_candidates)
    candidates.command()(decisions.register)
    control.add_typer(candidates)

    canaries = _group("canary", "The version under trial.")
    canaries.command()(canary.start)
    canaries.command()(canary.judge)
    canaries.command()(canary.advance)
    canaries.command()(canary.resume)
    control.add_typer(canaries)

    app.add_typer(control)


def _group(name: str, text: str) -> typer.Typer:
    return typer.Typer(
        name=name, help=text, no_args_is_help=True, rich_markup_mode=None, add_completion=False
    )
