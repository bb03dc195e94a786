"""What the verbs of `atdp control` share: their options, the home's store, the flow in a person's name."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from getpass import getuser
from typing import Annotated

import httpx
import typer

from atdp.control import STORE_FILE_NAME, ControlError, ReleaseFlow, ReleaseStore, open_flow
from atdp.runtime import Home


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
    """The home's store. Only a command that may `begin` a line makes one where there is none."""
    home = Home.from_env()
    if not begin and not (home.control / STORE_FILE_NAME).exists():
        raise ControlError(
            f"nothing has been released in {home.root} yet; `atdp control bootstrap` begins a line, ATDP_HOME names"
            " another home"
        )
    with ReleaseStore(home.control) as store:
        yield home, store


@contextmanager
def recording(model: str | None, *, begin: bool = False) -> Iterator[ReleaseFlow]:
    """The flow of a line of the running stack, for a person's decision."""
    with store_of_home(begin=begin) as (home, store), httpx.Client(trust_env=False) as client:
        name = model if begin and model else model_of(store, model)
        yield open_flow(home, store, client, model=name, actor=f"person:{getuser()}")


def model_of(store: ReleaseStore, model: str | None) -> str:
    """The model that was named, else that of the only line.

    Raises `ControlError` when there is no such line.
    """
    known = [line.partition("/")[2] for line in store.lines()]
    if not known:
        raise ControlError(
            "nothing has been released in this home yet; `atdp control bootstrap` begins a line"
        )
    if model is None and len(known) > 1:
        raise ControlError(f"there are several lines ({', '.join(known)}); name one with --model")
    if model is not None and model not in known:
        raise ControlError(
            f"nothing has been decided about {model} in this home, only about {', '.join(known)}; name one of these, or"
            f" begin a line with `atdp control bootstrap VERSION --model {model} --tenant TENANT`"
        )
    return model or known[0]
