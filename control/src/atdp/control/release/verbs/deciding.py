"""Verbs that decide about versions: register, bootstrap, promote, roll back; and bring decisions into force."""

from typing import Annotated

import typer

from atdp.control.release.effects import desired
from atdp.control.release.manifest import read_manifest
from atdp.control.release.verbs.context import Model, Reason, recording


def register(version: str, model: Model = None) -> None:
    r"""Make a version of the weight registry known as a candidate.

    \b
    Example:
      atdp control candidate register v2 --model orderdesk
    """
    with recording(model) as flow:
        flow.register_candidate(read_manifest(flow.weights, flow.model, version))
    typer.echo(f"{version} is a candidate; evaluate it with `atdp replay --candidate {version}`")


def bootstrap(
    version: str,
    model: Annotated[str, typer.Option("--model", "-m", help="Model of the new line.")],
    tenant: Annotated[
        list[str], typer.Option("--tenant", help="Tenant that the line serves; repeat for several.")
    ],
    reason: Reason = "first version",
) -> None:
    r"""Begin a line: put its first version live, without a gate.

    \b
    Example:
      atdp control bootstrap v1 --model orderdesk --tenant acme --tenant globex
    """
    with recording(model, begin=True) as flow:
        flow.bootstrap(read_manifest(flow.weights, model, version), tenants=tenant, reason=reason)
    typer.echo(f"{model} {version} is live")


def promote(
    version: Annotated[str | None, typer.Argument(help="Canary to promote; may be left out.")] = None,
    model: Model = None,
) -> None:
    r"""Make the canary live; it must have passed at its last share.

    \b
    Example:
      atdp control promote v2
    """
    with recording(model) as flow:
        line = flow.promote(version)
    typer.echo(f"{line.lineage[-1]} is live")


def rollback(
    reason: Reason,
    version: Annotated[
        str | None,
        typer.Argument(help="Version to take off; only the canary may be left out.", show_default=False),
    ] = None,
    model: Model = None,
) -> None:
    r"""Take the canary or the live version off and return to what was live before, at once.

    \b
    Example:
      atdp control rollback v3 --reason "refunds are wrong"
    """
    with recording(model) as flow:
        line = flow.roll_back(version, reason=reason)
    typer.echo(f"{line.lineage[-1]} answers all new sessions")


def reconcile(model: Model = None) -> None:
    r"""Bring engines and routes to what was decided, and publish what waits.

    \b
    Example:
      atdp control reconcile
    """
    with recording(model) as flow:
        table = desired(flow.reconcile())
    if table is None:
        typer.echo("nothing has been decided yet")
        return
    rest = "" if table.canary is None else f", {table.canary.serving.version} has {table.canary.share:.0%}"
    typer.echo(f"{table.stable.version} is in force on {table.stable.engine}{rest}")
