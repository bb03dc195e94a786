"""`atdp replay run --repeat RUN`: a stored run is made again, to the same bytes."""

from functools import partial
from typing import NoReturn

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import Format
from atdp.stack.cli.replay.verdict_output import VerdictFiles, end

_OWN_OPTIONS = frozenset({"repeat", "report", "junit", "form", "as_json"})


def repeat_stored(
    context: typer.Context, run: str, files: VerdictFiles, form: Format | None
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
    from atdp.replay import repeat_run, write_report

    with files.judging():
        report = repeat_run(existing_home(), run)
    end(report, form, files, partial(write_report, report))
