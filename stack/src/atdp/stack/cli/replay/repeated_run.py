"""`atdp replay run --repeat RUN`: a stored run is made again, to the same bytes."""

from pathlib import Path
from typing import NoReturn

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import Format
from atdp.stack.cli.replay.printed_report import print_report

_OWN_OPTIONS = frozenset({"repeat", "report", "form", "as_json"})


def repeat_stored(
    context: typer.Context, run: str, page: Path | None, form: Format | None
) -> NoReturn:
    """Repeat a run, print its report, and end with the exit code of its verdict.

    Raises:
        BadParameter: an option is given that would have no effect.
    """
    given = {name for name, value in context.params.items() if value not in (None, False)}
    if further := sorted(given - _OWN_OPTIONS):
        raise typer.BadParameter(
            "a run is repeated with its own settings",
            param_hint="--" + further[0].replace("_", "-"),
        )
    from atdp.replay import repeat_run

    report = repeat_run(existing_home(), run)
    print_report(report, page, form)
    raise typer.Exit(report.exit_code)
