"""`atdp control …`: the story of releases, and the commands of whoever is on duty."""

import typer

from atdp.stack.cli.control import canary, deciding, reading


def _group(name: str, text: str) -> typer.Typer:
    return typer.Typer(
        name=name, help=text, no_args_is_help=True, rich_markup_mode=None, add_completion=False
    )


app = _group("control", "Releases: what was decided, on which evidence, and what to do next.")
app.command()(reading.history)
app.command()(reading.status)
app.command()(deciding.bootstrap)
app.command()(deciding.promote)
app.command()(deciding.rollback)
app.command()(deciding.reconcile)

_candidates = _group("candidate", "Versions that may become live.")
_candidates.command("list")(reading.list_candidates)
_candidates.command()(deciding.register)
app.add_typer(_candidates)

_canaries = _group("canary", "The version under trial.")
_canaries.command()(canary.start)
_canaries.command()(canary.judge)
_canaries.command()(canary.advance)
_canaries.command()(canary.resume)
app.add_typer(_canaries)
