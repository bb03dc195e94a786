"""`atdp demo`: the closed loop on this machine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack import print_json


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(demo)


def demo(
    home: Annotated[
        Path | None,
        typer.Option(
            help="New folder for this run's stack and results (default: demo/<time> in the home).",
            file_okay=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of customers, clerks and training.")] = 7,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON instead of paths.")
    ] = False,
) -> None:
    r"""Run the closed loop: agents serve customers, a small model learns from it, better weights are promoted.

    Takes about six minutes on two cores. Starts a stack of its own and stops it at the end;
    everything it made stays in the folder whose report and summary are named last. Exit code 1 when
    something that the demo is there to show did not hold.

    \b
    Example:
      atdp demo
      atdp demo --home /tmp/demo --seed 3
    """
    from rich.console import Console

    from atdp.runtime import Home
    from order_desk.errors import DemoError
    from order_desk.run import fresh_home, run_demo
    from order_desk.settings import DemoSettings

    chosen = fresh_home(Home.from_env().root) if home is None else Home(home.resolve())
    if chosen.root.exists() and any(chosen.root.iterdir()):
        raise DemoError(
            f"{chosen.root} is not empty; the demo begins with a new home: name another folder, or none"
        )
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers would draw over ours
    console = Console(stderr=as_json)
    result = run_demo(chosen, DemoSettings(seed=seed), console)
    if as_json:
        print_json(result.summary.to_json())
    raise typer.Exit(0 if all(result.summary.promises.values()) else 1)
