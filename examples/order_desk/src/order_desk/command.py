"""The command `atdp demo`, which the `atdp` command finds by its entry point."""

import os
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack import FormatOption, JsonOption, choose_format, print_record


def add_to(app: typer.Typer) -> None:
    """Add the verb `demo` to the `atdp` command."""
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
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Run the closed loop on this machine.

    Agents serve customers, a small model learns from their trajectories, and better weights are
    promoted. Takes about six minutes on two cores. Starts a stack of its own and stops it at the
    end; all files stay in the folder of the report and the summary, whose paths are printed last.
    Exit code 1 when a promise that the demo checks is broken.

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
            f"{chosen.root} is not empty. The demo needs a new home: name another folder, or none."
        )
    # transformers would draw its progress bars over the demo's.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    form = choose_format(form, as_json)
    console = Console(stderr=form is not None)
    result = run_demo(chosen, DemoSettings(seed=seed), console)
    if form is not None:
        print_record(result.summary.to_json(), form)
    raise typer.Exit(0 if all(result.summary.promises.values()) else 1)
