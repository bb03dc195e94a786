"""The frame of the `atdp` command: which verbs there are, how errors become exit codes.

Results go to standard output, everything for people's eyes (progress, remarks, errors) to standard
error. An error that the platform raises on purpose ends in one line and exit code 1 (3 where 1 is a
verdict, as in `atdp replay`); a wrong call in exit code 2; Ctrl-C in 130. Anything else is a bug
and shows its traceback. Verbs import what they need when they run, and some are loaded only when
called: `atdp --help` is quick.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from atdp.stack.cli import dataset, imports, keys, query, stack, training, waiting
from atdp.stack.cli.exits import code_of_an_error

_LOADED_WHEN_CALLED: Mapping[str, tuple[str, str]] = {
    "replay": (
        "atdp.stack.cli.replay",
        "Judge a candidate on logged trajectories.",
    ),
    "demo": (
        "order_desk.command",
        "Run the closed loop on this machine, from traffic to release.",
    ),
    "control": (
        "atdp.stack.cli.control",
        "Releases: what was decided and why, and what to do next.",
    ),
}
"""Name → module that has the verb or group (`add_to` or `app`), and the help that stands for it in
the list."""


class AtdpGroup(TyperGroup):
    """The verbs of `atdp`, turning the platform's errors into a line and an exit code."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Take the verbs, with the lines of their examples kept apart in help texts."""
        super().__init__(*args, **settings)
        _keep_lines(self)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            code = 130
        except BrokenPipeError:
            # The reader of our output (`head`) has had enough; say nothing, also not when the
            # interpreter flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except Exception as error:
            if not is_ours(error):
                raise
            typer.echo(f"error: {error}", err=True)
            code = code_of_an_error(ctx)
        # Raised here and not above: an exception keeps what it was raised from, and with it the
        # frames that hold open connections; DuckDB's binding prints a page about each when the
        # interpreter ends.
        raise typer.Exit(code)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that is called; one that is loaded when called, now."""
        name = args[0] if args else ""
        if name in _LOADED_WHEN_CALLED:
            self.add_command(load(name), name)
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """Load a verb or group that the list only names."""
    module = importlib.import_module(_LOADED_WHEN_CALLED[name][0])
    if hasattr(module, "app"):
        part = module.app
    else:
        part = typer.Typer(rich_markup_mode=None, add_completion=False)
        module.add_to(part)
    command = typer.main.get_command(part)
    _keep_lines(command)
    return command


def _keep_lines(command: Any) -> None:
    r"""Turn the two characters `\b` of raw docstrings into the one that keeps a paragraph's line breaks."""
    if command.help:
        command.help = command.help.replace("\\b\n", "\b\n")
    for part in getattr(command, "commands", {}).values():
        _keep_lines(part)


def is_ours(error: Exception) -> bool:
    """Tell whether the platform raised this on purpose, for people to read (classes of `atdp.*`)."""
    return type(error).__module__.startswith("atdp.")


def build() -> typer.Typer:
    """Put the verbs together."""
    app = typer.Typer(
        name="atdp",
        cls=AtdpGroup,
        help="The data platform that turns what deployed agents do into governed, replayable, trainable "
        "trajectories.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(common)
    for part in (stack, keys, imports, waiting, query, dataset, training):
        part.add_to(app)
    for name, (_, text) in _LOADED_WHEN_CALLED.items():
        placeholder = typer.Typer(help=text, rich_markup_mode=None)
        placeholder.callback()(_nothing)
        app.add_typer(placeholder, name=name)
    return app


def _nothing() -> None:
    pass


def common(
    home: Annotated[
        Path | None,
        typer.Option(
            help="Home of the stack (default: $ATDP_HOME, else ./.atdp).", file_okay=False
        ),
    ] = None,
) -> None:
    """Settings of every verb."""
    if home is not None:
        os.environ["ATDP_HOME"] = str(home.resolve())
