"""`atdp wait`: until what was accepted so far is governed and landed."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import print_json

if TYPE_CHECKING:
    from atdp.stack.flow import Lag


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("wait")(wait)


def wait(
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.", min=0)] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is missing as JSON.")] = False,
) -> None:
    r"""Wait until everything accepted so far has landed in the lake.

    It goes through the gate first. What agents still hold in their spools is not accepted yet. Exit
    code 1 when the time is out; then it says what is missing and where.

    \b
    Example:
      atdp wait --timeout 120 && atdp sql "SELECT count(*) FROM trajectories"
    """
    from atdp.runtime import KafkaSettings
    from atdp.stack.errors import NotRunning
    from atdp.stack.flow import wait_until_read
    from atdp.stack.kafka_log import KafkaLog
    from atdp.stack.ledger import Ledger
    from atdp.stack.readers import stages

    home = existing_home()
    if not os.environ.get("ATDP_KAFKA_BOOTSTRAP") and Ledger(home).supervisor_pid() is None:
        raise NotRunning(
            f"No stack of {home.root} is running, so nothing can land. `atdp up` starts one."
        )
    began = time.monotonic()
    with KafkaLog(KafkaSettings.from_env(home, os.environ)) as log:
        missing = wait_until_read(
            log,
            stages(home, log),
            timeout_s=timeout,
            clock=time.monotonic,
            sleep=time.sleep,
            progress=_Ticker(),
        )
    if as_json:
        print_json(
            {
                "landed": not missing,
                "missing": [found.row() | {"partitions": found.partitions} for found in missing],
            }
        )
    for found in missing:
        where = ", ".join(
            f"[{partition}] {count}" for partition, count in sorted(found.partitions.items())
        )
        typer.echo(
            f"{found.reader} has up to {found.waiting} records of {found.topic} left ({where})",
            err=True,
        )
    if missing:
        typer.echo("not landed; `atdp status` shows what each service is doing", err=True)
        raise typer.Exit(1)
    typer.echo(f"everything landed ({time.monotonic() - began:.1f} s)", err=True)


class _Ticker:
    """Shows on a terminal what is left, in one line."""

    def __init__(self) -> None:
        self._shows = os.isatty(2)

    def __call__(self, lags: "Sequence[Lag]") -> None:
        if self._shows:
            left = ", ".join(f"{found.reader} {found.waiting}" for found in lags)
            typer.echo(f"\r\x1b[K{left}", err=True, nl=False)
