"""`atdp up`, `atdp down`, `atdp status`."""

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.output import Format, print_json, print_rows

if TYPE_CHECKING:
    from atdp.stack.broker.jars import Progress
    from atdp.stack.local import Stack
    from atdp.stack.status import StackStatus


class StatusFormat(StrEnum):
    """How the status is printed. It has several tables, so there is no CSV of it."""

    TABLE = "table"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once everything is up.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --detach: print what runs where as JSON.")
    ] = False,
) -> None:
    r"""Start the stack of this home and watch it.

    The stack is a Kafka broker, governance, the lake writer, two inference workers and the gateway.
    Stays in the foreground until Ctrl-C (or `atdp down` from elsewhere). With ATDP_KAFKA_BOOTSTRAP
    set, no broker is started and that cluster is used.

    \b
    Example:
      atdp up --detach
      atdp up --detach --json | jq -r .endpoints.gateway
      ATDP_HOME=/data/atdp atdp up
    """
    if as_json and not detach:
        raise typer.BadParameter("goes with --detach", param_hint="--json")
    stack = _stack()
    progress = jar_progress()
    if detach:
        from atdp.stack.broker.jars import cache_dir, ensure_jars

        if stack.external_kafka is None:
            ensure_jars(
                cache_dir(os.environ), progress=progress
            )  # here, where its progress can be seen
        stack.detach(_say)
        endpoints = stack.home.endpoints()
        if as_json:
            print_json(
                {
                    "home": str(stack.home.root),
                    "supervisor_pid": stack.ledger.supervisor_pid(),
                    "endpoints": endpoints,
                }
            )
        else:
            _say(f"gateway: {endpoints.get('gateway')} - stop with `atdp down`")
    else:
        stack.log_to_file()
        stack.run(_say, progress)
        _say("down")


def down(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was stopped as JSON.")
    ] = False,
) -> None:
    r"""Stop the stack of this home: the gateway first, the broker last.

    Exit code 3 when none is running.

    \b
    Example:
      atdp down
    """
    from atdp.stack.errors import NotRunning

    stack = _stack()
    told: dict[str, object] = {"home": str(stack.home.root), "was_running": True}
    try:
        stack.down(_say)
    except NotRunning as error:
        _say(str(error))
        if as_json:
            print_json(told | {"was_running": False})
        raise typer.Exit(3) from None
    if as_json:
        print_json(told)
    else:
        _say("down")


def status(
    form: Annotated[
        StatusFormat, typer.Option("--format", help="How to print it.")
    ] = StatusFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
) -> None:
    r"""Show how the stack of this home is doing.

    Health, restarts and memory of every service, what each stage has left to read, rows and
    snapshots of the tables, weights and policies. Exit code 0: healthy. 1: degraded (something
    died, is not ready or cannot be read). 3: not running.

    \b
    Example:
      atdp status
      atdp status --json | jq .lag
    """
    from atdp.stack.status import collect

    found = collect(_stack())
    if as_json or form is StatusFormat.JSON:
        print_json(found.as_json())
    else:
        _show(found)
    raise typer.Exit(found.exit_code)


def jar_progress() -> "Progress | None":
    """Say on standard error which jar is fetched."""
    from atdp.stack.broker.jars import Jar

    def progress(jar: Jar, done: int, total: int) -> None:
        typer.echo(
            f"\r\x1b[Kfetching the broker's jars {done + 1}/{total} {jar.filename}",
            err=True,
            nl=done + 1 == total,
        )

    return progress


def _show(found: "StackStatus") -> None:
    if found.state == "not running" and not found.services:
        typer.echo(f"No stack of {found.home} is running. `atdp up` starts one.")
        return
    print_rows(
        [service.row() for service in found.services],
        ["service", "state", "pid", "port", "restarts", "last exit", "MB", "remark"],
        Format.TABLE,
        title=f"{found.home} is {found.state}",
    )
    if found.flow:
        print_rows(
            [flow.row() for flow in found.flow],
            ["reader", "topic", "waiting", "read up to"],
            Format.TABLE,
        )
    if found.tables:
        print_rows(
            [table.row() for table in found.tables], ["table", "rows", "snapshot"], Format.TABLE
        )
    for name, value in found.facts():
        typer.echo(f"{name}: {value}")
    for problem in found.problems:
        typer.echo(f"! {problem}")


def _stack() -> "Stack":
    from atdp.runtime import Home
    from atdp.stack.local import Stack

    return Stack(home=Home.from_env(), environ=os.environ)


def _say(line: str) -> None:
    typer.echo(line, err=True)
