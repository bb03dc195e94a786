"""`atdp replay`: the verb. What it does is in `atdp.replay.command`.

Here are its options, its output and its exit code.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack.cli.exits import codes_are_verdicts
from atdp.stack.cli.homes import existing_home


class Mode(StrEnum):
    """What the candidate has to show."""

    superiority = "superiority"
    non_inferiority = "non_inferiority"


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(replay)


def replay(
    context: typer.Context,
    dataset: Annotated[str, typer.Option(help="Pinned dataset (`atdp dataset list`).")],
    candidate: Annotated[str, typer.Option(help="Version to judge, e.g. v2.")],
    baseline: Annotated[str, typer.Option(help="Version to compare with, e.g. v1.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model in the weight registry.")],
    candidate_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the candidate (default: found in the stack)."),
    ] = None,
    baseline_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the baseline (default: found in the stack)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the page here, and the same as JSON beside it.", dir_okay=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the canonical report.")] = False,
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
        typer.Option(
            "--record", help="Record the verdict as a gate of the release (`atdp control`)."
        ),
    ] = False,
) -> None:
    r"""Judge a candidate on logged trajectories, without serving it to anybody.

    Exit code 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR, also when the verdict could not be recorded:
    that needs a running stack and a registered candidate.

    \b
    Example:
      atdp replay --dataset orders-7 --candidate v2 --baseline v1 --model orderdesk --report v2.html
    """
    codes_are_verdicts(context)
    from atdp.replay import ReplayConfig, evaluate_dataset, write_report

    found = evaluate_dataset(
        existing_home(),
        dataset=dataset,
        model=model,
        candidate=candidate,
        baseline=baseline,
        candidate_url=candidate_url,
        baseline_url=baseline_url,
        held_out=not in_sample,
        config=ReplayConfig(mode=mode.value, margin=margin, alpha=alpha),
    )
    typer.echo(found.canonical().decode() if as_json else found.text())
    if report is not None:
        page, data = write_report(found, report)
        typer.echo(f"{page}\n{data}", err=as_json)
    if record:
        from atdp.stack.cli.control.context import recording

        with recording(model) as flow:
            flow.record_gate(found)
    raise typer.Exit(found.exit_code)
