"""`atdp train`: train a new version of a model on logged trajectories."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import FormatOption, JsonOption, choose_format, print_record

if TYPE_CHECKING:
    from atdp.trainer import TrainResult


class Algorithm(StrEnum):
    """The training algorithm."""

    SFT = "sft"
    GRPO = "grpo"


class Advantage(StrEnum):
    """The kind of advantage: how the members of a group are compared."""

    GRPO = "grpo"
    DR = "dr"
    RLOO = "rloo"


def add_to(app: typer.Typer) -> None:
    """Add the verb `train` to the `atdp` command."""
    app.command()(train)


def train(  # noqa: PLR0913 (one for each option of the command)
    model: Annotated[str, typer.Option("--model", "-m", help="Name in the weight registry.")],
    algo: Annotated[
        Algorithm, typer.Option(help="grpo: from rewards; sft: imitate the logged answers.")
    ] = Algorithm.GRPO,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Pinned dataset to learn from (default: the current content of the lake)."
        ),
    ] = None,
    from_version: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Version to start from (default: "
            "the newest published one, whatever its verdict in replay; sft: a new model).",
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="SQL condition over the columns of trajectories.")
    ] = None,
    hold_out: Annotated[
        float,
        typer.Option(help="Share of the tasks kept for evaluation; 0 trains on all.", min=0, max=1),
    ] = 0.25,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's trajectories.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="grpo: wait for more data to arrive.")
    ] = False,
    steps: Annotated[int, typer.Option(help="Optimizer steps.", min=1)] = 100,
    group_size: Annotated[
        int, typer.Option(help="Attempts at one task that make a group.", min=2)
    ] = 8,
    groups_per_step: Annotated[int, typer.Option(help="Groups in one step.", min=1)] = 8,
    max_staleness: Annotated[
        int, typer.Option(help="Versions that data may be behind.", min=0)
    ] = 4,
    advantage: Annotated[Advantage, typer.Option(help="Kind of advantage.")] = Advantage.GRPO,
    learning_rate: Annotated[
        float | None, typer.Option(help="Above 0; default 1e-4 (grpo), 2e-3 (sft).")
    ] = None,
    batch: Annotated[int, typer.Option(help="sft: conversations per step.", min=1)] = 64,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    threads: Annotated[
        int,
        typer.Option(help="CPU threads; with one, every repetition gives the same bits.", min=1),
    ] = 1,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="Name of the run (default: from model, base, settings and data). "
            "An interrupted grpo run is continued.",
        ),
    ] = None,
    engine_url: Annotated[
        str | None, typer.Option(help="Load the result into this inference server.")
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Train a model on governed trajectories; publish a version.

    Reads only trajectories that allow training. The version is published with its lineage.

    \b
    Example:
      atdp train --model orderdesk --algo sft --dataset logs-1 --steps 300
      atdp train --model orderdesk --dataset week-12 --steps 20 --json
    """
    from atdp.trainer import TrainOptions, train as run_training

    options = TrainOptions(
        home=existing_home(),
        model=model,
        algo=algo.value,
        from_version=from_version,
        dataset=dataset,
        follow=follow,
        tenant=tenant,
        where=where,
        hold_out=hold_out,
        steps=steps,
        group_size=group_size,
        groups_per_step=groups_per_step,
        max_staleness=max_staleness,
        advantage=advantage.value,
        learning_rate=learning_rate,
        batch=batch,
        seed=seed,
        threads=threads,
        run_name=run,
        engine_url=engine_url,
    )
    form = choose_format(form, as_json)
    with _progress_bar(steps, shown=form is None) as progress:
        result = run_training(
            options, on_progress=progress, on_begin=lambda line: typer.echo(line, err=True)
        )
    if form is None:
        _show(result, run)
    else:
        print_record(result.to_json(), form)


def _show(result: "TrainResult", run: str | None) -> None:
    if not result.steps:
        typer.echo(
            f"run {run} had already published {result.published.model} {result.published.version}"
        )
        return
    parent = f" from {result.published.parent}" if result.published.parent else ""
    typer.echo(
        f"{result.published.model} {result.published.version}{parent}: "
        f"{result.steps} steps on {result.trajectories_used} trajectories"
    )
    for label, counts in (("set aside", result.set_aside), ("refused", result.refused)):
        for reason, count in counts.items():
            typer.echo(f"{label}: {count} {reason}")
    typer.echo(str(result.published.path))


@contextmanager
def _progress_bar(
    steps: int, *, shown: bool
) -> Iterator[Callable[[int, int, Mapping[str, Any]], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[metrics]}"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not (shown and console.is_terminal)
    ) as bar:
        task = bar.add_task("train", total=steps, metrics="")

        def progress(done: int, of: int, metrics: Mapping[str, Any]) -> None:
            shown_metrics = "  ".join(
                f"{name} {value:.4g}"
                for name, value in list(metrics.items())[:3]
                if isinstance(value, float)
            )
            bar.update(task, completed=done, total=of, metrics=shown_metrics)

        yield progress
