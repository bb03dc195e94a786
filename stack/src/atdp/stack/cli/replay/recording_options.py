"""The options and the output that `atdp replay cassette` and `atdp replay teacher` share."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from atdp.stack.cli.output import Format, print_record

if TYPE_CHECKING:
    from atdp.replay import RecordingReport

Dataset = Annotated[str, typer.Option(help="Pinned dataset (`atdp dataset list`).")]
Candidate = Annotated[str, typer.Option(help="Version to replay, e.g. v2.")]
Model = Annotated[str, typer.Option("--model", "-m", help="Model in the weight registry.")]
CandidateUrl = Annotated[
    str | None,
    typer.Option(help="Engine that serves the candidate (default: an engine of the stack)."),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(help="Settings (YAML): rules of tools, thresholds.", dir_okay=False),
]
SystemPrompt = Annotated[
    Path | None,
    typer.Option(help="Show this text in place of the recorded system prompt.", dir_okay=False),
]
ToolsFile = Annotated[
    Path | None,
    typer.Option(help="Show these tools (JSON) in place of the recorded ones.", dir_okay=False),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(help="Write the page here, and the same as JSON beside it.", dir_okay=False),
]


def finish(result: "RecordingReport", page: Path | None, form: Format | None) -> NoReturn:
    """Print the report, write its files, and end with the verdict's exit code."""
    from atdp.replay import write_recording_report

    if form is None:
        typer.echo(result.text())
    elif form is Format.JSON:
        typer.echo(result.canonical().decode())  # the bytes that the report's digest is of
    else:
        print_record(json.loads(result.canonical()), form)
    if page is not None:
        for written in write_recording_report(result, page):
            typer.echo(written, err=form is not None)
    raise typer.Exit(result.exit_code)
