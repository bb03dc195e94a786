"""`atdp replay run`: its options, its output and its exit code.

The evaluation itself is `atdp.replay.evaluate_dataset`.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.exit_codes import codes_are_verdicts
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    choose_format,
    print_record,
)

if TYPE_CHECKING:
    from atdp.replay import ReplayReport


class Mode(StrEnum):
    """The hypothesis that the candidate has to pass."""

    superiority = "superiority"
    non_inferiority = "non_inferiority"


def run(  # noqa: PLR0913 (one for each option of the command)
    context: typer.Context,
    dataset: Annotated[str, typer.Option(help="Pinned dataset (`atdp dataset list`).")],
    candidate: Annotated[str, typer.Option(help="Version to judge, e.g. v2.")],
    baseline: Annotated[str, typer.Option(help="Version to compare with, e.g. v1.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model in the weight registry.")],
    candidate_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the candidate (default: an engine of the stack)."),
    ] = None,
    baseline_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the baseline (default: an engine of the stack)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the page here, and the same as JSON beside it.", dir_okay=False),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    mode: Annotated[
        Mode, typer.Option(help="Better than the baseline, or no worse.")
    ] = Mode.superiority,
    margin: Annotated[
        float, typer.Option(help="Least gain (superiority) or tolerated loss, in reward.", min=0)
    ] = 0.0,
    alpha: Annotated[float, typer.Option(help="One-sided error of each bound.")] = 0.05,
    in_sample: Annotated[
        bool,
        typer.Option("--in-sample", help="Keep trajectories that the candidate was trained on."),
    ] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record the verdict for the release gate (`atdp control`)."),
    ] = False,
) -> None:
    r"""Judge a candidate on logged trajectories, before it serves any session.

    Exit code 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR. The code is 3 also when the verdict could
    not be recorded: that needs a running stack and a registered candidate. --json prints the
    canonical report.

    \b
    Example:
      atdp replay run --dataset orders-7 --candidate v2 --baseline v1 --model orderdesk
    """
    codes_are_verdicts(context)
    from atdp.replay import ReplayConfig, ReplayRequest, evaluate_dataset, write_report

    result = evaluate_dataset(
        existing_home(),
        ReplayRequest(
            dataset=dataset,
            model=model,
            candidate=candidate,
            baseline=baseline,
            candidate_url=candidate_url,
            baseline_url=baseline_url,
            held_out=not in_sample,
        ),
        config=ReplayConfig(mode=mode.value, margin=margin, alpha=alpha),
    )
    form = choose_format(form, as_json)
    _print_report(result, form)
    if report is not None:
        page, data = write_report(result, report)
        typer.echo(f"{page}\n{data}", err=form is not None)
    if record:
        from atdp.stack.cli.control.release_flow import recording

        with recording(model) as flow:
            flow.record_gate(result)
    raise typer.Exit(result.exit_code)


def _print_report(report: "ReplayReport", form: Format | None) -> None:
    if form is None:
        typer.echo(report.text())
    elif form is Format.JSON:
        typer.echo(report.canonical().decode())  # the bytes that the report's digest is of
    else:
        print_record(json.loads(report.canonical()), form)
