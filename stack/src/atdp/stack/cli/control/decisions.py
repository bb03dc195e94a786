"""Verbs that decide about versions: register, bootstrap, promote, roll back; and bring decisions into force."""

from typing import Annotated

import typer

from atdp.control import read_manifest
from atdp.stack.cli.control.context import AsFormat, Format, Model, Reason, recording
from atdp.stack.cli.control.state import as_json, show


def register(version: str, model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Make a version of the weight registry known as a candidate.

    \b
    Example:
      atdp control candidate register v2 --model orderdesk
    """
    with recording(model) as flow:
        line = flow.register_candidate(read_manifest(flow.weights, flow.model, version))
    show(line, version, output)


def bootstrap(
    version: str,
    model: Annotated[str, typer.Option("--model", "-m", help="Model of the new line.")],
    tenant: Annotated[
        list[str], typer.Option("--tenant", help="Tenant that the line serves; repeat for several.")
    ],
    reason: Reason = "first version",
    output: AsFormat = Format.table,
) -> None:
    r"""Begin a line: put its first version live, without a gate.

    \b
    Example:
      atdp control bootstrap v1 --model orderdesk --tenant acme --tenant globex
    """
    with recording(model, begin=True) as flow:
        line = flow.bootstrap(
            read_manifest(flow.weights, model, version), tenants=tenant, reason=reason
        )
    show(line, version, output)


def promote(
    version: Annotated[
        str | None, typer.Argument(help="Canary to promote; may be left out.")
    ] = None,
    model: Model = None,
    output: AsFormat = Format.table,
) -> None:
    r"""Make the canary live; it must have passed at its last share.

    \b
    Example:
      atdp control promote v2
    """
    with recording(model) as flow:
        line = flow.promote(version)
    show(line, version or line.lineage[-1], output)


def rollback(
    reason: Reason,
    version: Annotated[
        str | None,
        typer.Argument(
            help="Version to take off; only the canary may be left out.", show_default=False
        ),
    ] = None,
    model: Model = None,
    output: AsFormat = Format.table,
) -> None:
    r"""Take the canary or the live version off and return to what was live before, at once.

    \b
    Example:
      atdp control rollback v3 --reason "refunds are wrong"
    """
    with recording(model) as flow:
        line = flow.roll_back(version, reason=reason)
    show(line, version or line.lineage[-1], output)


def reconcile(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Bring engines and routes to what was decided, and publish what waits.

    \b
    Example:
      atdp control reconcile
    """
    with recording(model) as flow:
        line = flow.reconcile()
    if output is Format.json or line.live is None:
        typer.echo(as_json(line))
        return
    rest = "" if line.canary is None else f", {line.canary.version} has {line.canary.share:.0%}"
    typer.echo(f"{line.live.version} is in force on {line.live.engine}{rest}")
