"""`atdp control …`: the story of releases, and the commands of whoever is on duty."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from getpass import getuser
from typing import Annotated, Literal

import httpx
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from atdp.control.errors import ControlError
from atdp.control.release.effects import desired
from atdp.control.release.errors import ReleaseError
from atdp.control.release.flow import ReleaseFlow
from atdp.control.release.http import HttpFleet, HttpRouter
from atdp.control.release.judge import CanaryPolicy
from atdp.control.release.line import Line, fold
from atdp.control.release.manifest import read_manifest
from atdp.control.release.outbox import KafkaTopic, Outbox
from atdp.control.release.store import FILE_NAME, ReleaseStore, line_of
from atdp.control.release.story import as_json, chapter
from atdp.ingest.errors import IngestError
from atdp.ingest.home import Home
from atdp.ingest.kafka_settings import KafkaSettings
from atdp.schemas import topic

app = typer.Typer(
    name="control",
    help="Releases: what was decided, on which evidence, and what to do next.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
candidates = typer.Typer(help="Versions that may become live.", no_args_is_help=True, rich_markup_mode=None)
canary = typer.Typer(help="The version under trial.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(candidates, name="candidate")
app.add_typer(canary, name="canary")


class Format(StrEnum):
    """How to print."""

    table = "table"
    json = "json"


Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Model; may be left out when there is one line.")
]
AsFormat = Annotated[Format, typer.Option("--format", "-f", help="For people, or for programs.")]
Yes = Annotated[str, typer.Option("--reason", "-r", help="Why; it is recorded.")]


def open_flow(
    home: Home, store: ReleaseStore, client: httpx.Client, *, model: str, actor: str
) -> ReleaseFlow:
    """The release flow of a running stack. Decisions are published when a broker is known."""
    try:
        settings = KafkaSettings.from_env(home)
        outbox = Outbox(store, KafkaTopic(topic("control").name, settings.config()))
    except IngestError:
        outbox = None
    try:
        key = home.operator_key_file.read_text("utf-8").strip()
    except OSError as error:
        raise ReleaseError(
            f"cannot read the operator's key ({error}); start the stack with `atdp up`"
        ) from error
    return ReleaseFlow(
        model=model,
        store=store,
        fleet=HttpFleet(client, home.endpoints),
        router=HttpRouter(client, home.endpoints, key),
        weights=home.weights,
        actor=actor,
        outbox=outbox,
    )


@contextmanager
def _store(*, begin: bool = False) -> Iterator[tuple[Home, ReleaseStore]]:
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
    with _store(begin=begin) as (home, store), httpx.Client(trust_env=False) as client:
        yield open_flow(home, store, client, model=_model(store, model), actor=f"person:{getuser()}")


def _model(store: ReleaseStore, model: str | None) -> str:
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


def _line(store: ReleaseStore, model: str) -> Line:
    history = store.history(line_of(model))
    if not history:
        raise ReleaseError(
            f"nothing has been decided about {model} in this home yet; see `atdp control history`"
        )
    return fold(d.body for d in history)


@app.command()
def history(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Tell the story of a model's releases, in order, with the evidence of each decision.

    \b
    Example:
      atdp control history --model orderdesk --format json
    """
    with _store() as (_, store):
        lines = [line_of(model)] if model else list(store.lines())
        told = [d for line in lines for d in store.history(line)]
        if model and not told:
            raise ReleaseError(f"nothing has been decided about {model} in this home yet")
    if output is Format.json:
        typer.echo(json.dumps([as_json(d) for d in told], indent=1, sort_keys=True))
        return
    console = Console()
    for line in dict.fromkeys(d.line for d in told):
        table = Table(title=escape(line), title_justify="left", show_lines=False, pad_edge=False)
        for heading, options in (
            ("#", {"justify": "right"}),
            ("when", {}),
            ("who", {}),
            ("what and why", {}),
        ):
            table.add_column(heading, **options)  # type: ignore[arg-type]
        for found in (chapter(d) for d in told if d.line == line):
            text = escape(found.what) + (f"\n[dim]{escape(found.evidence)}[/]" if found.evidence else "")
            table.add_row(str(found.number), found.when, escape(found.actor), text)
        console.print(table)


@app.command()
def status(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Show what is live, what is tried, and what the routes should be.

    \b
    Example:
      atdp control status
    """
    with _store() as (_, store):
        name = _model(store, model)
        line = _line(store, name)
        if output is Format.json:
            typer.echo(json.dumps(_status_json(line), indent=1, sort_keys=True))
            return
        console = Console()
        live = line.live
        console.print(f"[bold]{escape(name)}[/]  tenants {escape(', '.join(line.tenants))}")
        console.print(f"live    {escape(live.version)} on {live.engine}" if live else "live    nothing")
        if line.canary:
            state = line.versions[line.canary.version].stage
            console.print(
                f"canary  {escape(line.canary.version)} on {line.canary.engine} with {line.canary.share:.0%} "
                f"({state}"
                f"{', passed' if line.canary.passed else ''})"
            )
        console.print(f"lineage {escape(' → '.join(line.lineage))}")


def _status_json(line: Line) -> dict[str, object]:
    table = desired(line)
    return {
        "model": line.model,
        "tenants": list(line.tenants),
        "live": line.live.version if line.live else None,
        "lineage": list(line.lineage),
        "canary": line.canary.version if line.canary else None,
        "canary_share": line.canary.share if line.canary else None,
        "canary_passed": line.canary.passed if line.canary else None,
        "engines": {
            "stable": table.stable.engine if table else None,
            "canary": table.canary.serving.engine if table and table.canary else None,
        },
        "versions": {name: v.stage.value for name, v in line.versions.items()},
        "events": line.number,
    }


@candidates.command("list")
def list_candidates(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""List every version of a line, where it stands and what its gates said.

    \b
    Example:
      atdp control candidate list
    """
    with _store() as (_, store):
        name = _model(store, model)
        versions = _line(store, name).versions.values()
    if output is Format.json:
        rows = [
            {
                "version": v.name,
                "stage": v.stage.value,
                "weights_sha256": v.weights_sha256,
                "gates": [{"verdict": g.verdict.value, "report_sha256": g.report_sha256} for g in v.gates],
            }
            for v in versions
        ]
        typer.echo(json.dumps(rows, indent=1, sort_keys=True))
        return
    table = Table("version", "stage", "weights", "replay", title=escape(name), title_justify="left")
    for v in versions:
        gates = ", ".join(f"{g.verdict.value} ({g.report_sha256[:8]})" for g in v.gates)
        table.add_row(escape(v.name), v.stage.value, v.weights_sha256[:12], gates)
    Console().print(table)


@candidates.command("register")
def register(version: str, model: Model = None) -> None:
    r"""Make a version of the weight registry known as a candidate.

    \b
    Example:
      atdp control candidate register v2 --model orderdesk
    """
    with recording(model) as flow:
        flow.register_candidate(read_manifest(flow.weights, flow.model, version))
    typer.echo(f"{version} is a candidate; evaluate it with `atdp replay --candidate {version}`")


@app.command()
def bootstrap(
    version: str,
    model: Annotated[str, typer.Option("--model", "-m", help="Model of the new line.")],
    tenant: Annotated[
        list[str], typer.Option("--tenant", help="Tenant that the line serves; repeat for several.")
    ],
    reason: Yes = "first version",
) -> None:
    r"""Begin a line: put its first version live, without a gate.

    \b
    Example:
      atdp control bootstrap v1 --model orderdesk --tenant acme --tenant globex
    """
    with recording(model, begin=True) as flow:
        flow.bootstrap(read_manifest(flow.weights, model, version), tenants=tenant, reason=reason)
    typer.echo(f"{model} {version} is live")


@canary.command("start")
def start(
    version: str,
    share: Annotated[
        list[float], typer.Option("--share", help="Share of new sessions; repeat for steps to come.")
    ],
    model: Model = None,
    margin: Annotated[float, typer.Option(help="Tolerated loss of success rate.")] = CanaryPolicy.margin,
    min_sessions: Annotated[int, typer.Option(help="Least sessions with an outcome on each side.")] = (
        CanaryPolicy.min_sessions
    ),
) -> None:
    r"""Give a candidate that passed replay its first share of new sessions.

    \b
    Example:
      atdp control canary start v2 --share 0.2 --share 0.5
    """
    with recording(model) as flow:
        line = flow.start_canary(
            version, share=share, policy=CanaryPolicy(margin=margin, min_sessions=min_sessions)
        )
    typer.echo(f"{version} is the canary with {line.canary.share if line.canary else 0:.0%} of new sessions")


@canary.command("advance")
def advance(version: str, model: Model = None) -> None:
    r"""Take the canary's next step.

    \b
    Example:
      atdp control canary advance v2
    """
    with recording(model) as flow:
        line = flow.raise_share(version)
    typer.echo(f"{version} has {line.canary.share if line.canary else 0:.0%} of new sessions")


@canary.command("resume")
def resume(version: str, reason: Yes, model: Model = None) -> None:
    r"""Go on with a paused canary; its comparison starts anew.

    \b
    Example:
      atdp control canary resume v2 --reason "the load balancer is fixed"
    """
    with recording(model) as flow:
        flow.resume(version, reason=reason)
    typer.echo(f"canary {version} goes on")


@app.command()
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


@app.command()
def rollback(
    reason: Yes,
    model: Model = None,
    target: Annotated[
        str, typer.Option(help="auto (the canary, else the live version), canary or live.")
    ] = "auto",
) -> None:
    r"""Return to what was live before, at once.

    \b
    Example:
      atdp control rollback --reason "refunds are wrong"
    """
    targets: dict[str, Literal["auto", "canary", "live"]] = {
        "auto": "auto",
        "canary": "canary",
        "live": "live",
    }
    if target not in targets:
        raise typer.BadParameter("target is auto, canary or live", param_hint="--target")
    with recording(model) as flow:
        line = flow.roll_back(reason, target=targets[target])
    typer.echo(f"{line.lineage[-1]} answers all new sessions")


@app.command()
def reconcile(model: Model = None) -> None:
    r"""Bring engines and routes to what was decided, and publish what waits.

    \b
    Example:
      atdp control reconcile
    """
    with recording(model) as flow:
        table = flow.reconcile()
    if table is None:
        typer.echo("nothing has been decided yet")
        return
    rest = "" if table.canary is None else f", {table.canary.serving.version} has {table.canary.share:.0%}"
    typer.echo(f"{table.stable.version} is in force on {table.stable.engine}{rest}")
