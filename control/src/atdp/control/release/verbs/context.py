"""What the verbs of `atdp control` share: their options, the home's store, the flow in a person's name."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from getpass import getuser
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.markup import escape

from atdp.control.errors import ControlError
from atdp.control.release.errors import ReleaseError
from atdp.control.release.flow import ReleaseFlow
from atdp.control.release.line import Line, fold
from atdp.control.release.opening import open_flow
from atdp.control.release.store import FILE_NAME, ReleaseStore, line_of
from atdp.ingest.errors import IngestError
from atdp.ingest.home import Home


class Format(StrEnum):
    """How to print."""

    table = "table"
    json = "json"


Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Model; may be left out when there is one line.")
]
AsFormat = Annotated[Format, typer.Option("--format", "-f", help="For people, or for programs.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it is recorded.")]


@contextmanager
def store_of_home(*, begin: bool = False) -> Iterator[tuple[Home, ReleaseStore]]:
    """The home's store; errors that a user can meet end the command with their message and code 1.

    Only a command that may `begin` a line makes a store where there is none.
    """
    home = Home.from_env()
    try:
        if not begin and not (home.control / FILE_NAME).exists():
            raise ReleaseError(
                f"nothing has been released in {home.root} yet; `atdp control bootstrap` begins a line, "
                "ATDP_HOME names"
                " another home"
            )
        with ReleaseStore(home.control) as store:
            yield home, store
    except (ControlError, IngestError) as error:
        Console(stderr=True).print(f"[bold red]error[/] {escape(str(error))}")
        raise typer.Exit(1) from error


@contextmanager
def recording(model: str | None, *, begin: bool = False) -> Iterator[ReleaseFlow]:
    """The flow of a line of the running stack, for a person's decision."""
    with store_of_home(begin=begin) as (home, store), httpx.Client(trust_env=False) as client:
        yield open_flow(home, store, client, model=model_of(store, model), actor=f"person:{getuser()}")


def model_of(store: ReleaseStore, model: str | None) -> str:
    """The model that was named, else that of the only line. Raises `ReleaseError` when there is no telling."""
    known = [line.partition("/")[2] for line in store.lines()]
    if model is not None:
        return model
    if len(known) == 1:
        return known[0]
    if not known:
        raise ReleaseError(
            "nothing has been released in this home yet; `atdp control bootstrap` begins a line"
        )
    raise ReleaseError(f"there are several lines ({', '.join(known)}); name one with --model")


def line_state(store: ReleaseStore, model: str) -> Line:
    """The line as it is now. Raises `ReleaseError` when it has no decision yet."""
    history = store.history(line_of(model))
    if not history:
        raise ReleaseError(
            f"nothing has been decided about {model} in this home yet; see `atdp control history`"
        )
    return fold(d.body for d in history)
