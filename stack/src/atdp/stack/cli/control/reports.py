"""Verbs that read: the story, the state, the versions."""

import json

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from atdp.control import decision_to_json, describe_decision, line_name
from atdp.stack.cli.control.context import AsFormat, Format, Model, model_of, store_of_home
from atdp.stack.cli.control.state import as_json


def history(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Tell the story of a model's releases, in order, with the evidence of each decision.

    \b
    Example:
      atdp control history --model orderdesk --format json
    """
    with store_of_home() as (_, store):
        lines = [line_name(model_of(store, model))] if model else list(store.lines())
        told = [d for line in lines for d in store.history(line)]
    if output is Format.json:
        typer.echo(json.dumps([decision_to_json(d) for d in told], indent=1, sort_keys=True))
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
        for found in (describe_decision(d) for d in told if d.line == line):
            text = escape(found.what) + (
                f"\n[dim]{escape(found.evidence)}[/]" if found.evidence else ""
            )
            table.add_row(str(found.number), found.when, escape(found.actor), text)
        console.print(table)


def status(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Show what is live, what is tried, and what the routes should be.

    \b
    Example:
      atdp control status
    """
    with store_of_home() as (_, store):
        name = model_of(store, model)
        line = store.state(line_name(name))
        if output is Format.json:
            typer.echo(as_json(line))
            return
        console = Console()
        live = line.live
        console.print(f"[bold]{escape(name)}[/]  tenants {escape(', '.join(line.tenants))}")
        console.print(
            f"live    {escape(live.version)} on {live.engine}" if live else "live    nothing"
        )
        if line.canary:
            state = line.versions[line.canary.version].stage
            console.print(
                f"canary  {escape(line.canary.version)} on {line.canary.engine} with {line.canary.share:.0%} "
                f"({state}"
                f"{', passed' if line.canary.passed else ''})"
            )
        console.print(f"lineage {escape(' → '.join(line.lineage))}")


def list_candidates(model: Model = None, output: AsFormat = Format.table) -> None:
    r"""List every version of a line, where it stands and what its gates said.

    \b
    Example:
      atdp control candidate list
    """
    with store_of_home() as (_, store):
        name = model_of(store, model)
        versions = store.state(line_name(name)).versions.values()
    if output is Format.json:
        rows = [
            {
                "version": v.name,
                "stage": v.stage.value,
                "weights_sha256": v.weights_sha256,
                "gates": [
                    {"verdict": g.verdict.value, "report_sha256": g.report_sha256} for g in v.gates
                ],
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
