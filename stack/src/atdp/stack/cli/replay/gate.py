"""`atdp replay gate`: its options, its output and its exit code.

The gates themselves are `atdp.replay.evaluate_gates`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.exit_codes import codes_are_verdicts
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import Format, FormatOption, JsonOption, choose_format, print_rows

if TYPE_CHECKING:
    from atdp.replay import GateReport


def gate(  # noqa: PLR0913 (one for each option of the command)
    context: typer.Context,
    candidate: Annotated[
        str,
        typer.Option(help="Trajectories to judge: v7, agent:2.1, prompt:9 or where:CONDITION."),
    ],
    baseline: Annotated[str, typer.Option(help="Trajectories to compare with, in the same form.")],
    dataset: Annotated[
        str | None,
        typer.Option(help="Pinned dataset (`atdp dataset list`; default: the newest data)."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="SQL condition over the columns of trajectories, for both."),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Only this tenant; may be repeated (default: all in the data)."),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="Metrics and margins as YAML (default: reward; cost and latency are shown).",
            dir_okay=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the page here, and the same as JSON beside it.", dir_okay=False),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write the verdicts here as JUnit XML.", dir_okay=False)
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare measured runs of a candidate with the baseline's on the same tasks.

    Every metric is judged for each tenant: means with flips, pass^k, safety invariants, cost and
    latency. Exit code 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR. --json prints the canonical report.

    \b
    Example:
      atdp replay gate --candidate v2 --baseline v1
      atdp replay gate --candidate v2 --baseline v1 --settings gates.yaml --junit gates.xml
    """
    codes_are_verdicts(context)
    from atdp.replay import (
        GateRequest,
        ReplayError,
        evaluate_gates,
        junit_error,
        junit_xml,
        read_gate_settings,
        write_gate_report,
    )

    request = GateRequest(
        candidate=candidate,
        baseline=baseline,
        dataset=dataset,
        where=where,
        tenants=tuple(tenant or ()),
    )
    try:
        rules = None if settings is None else read_gate_settings(settings)
        result = evaluate_gates(existing_home(), request, rules)
    except ReplayError as error:
        if junit is not None:
            _write(junit, junit_error(str(error)))
        raise
    form = choose_format(form, as_json)
    _print_report(result, form)
    if report is not None:
        page, data = write_gate_report(result, report)
        typer.echo(f"{page}\n{data}", err=form is not None)
    if junit is not None:
        _write(junit, junit_xml(result))
    raise typer.Exit(result.exit_code)


def _print_report(report: "GateReport", form: Format | None) -> None:
    if form is None:
        typer.echo(report.text())
    elif form is Format.JSON:
        typer.echo(report.canonical().decode())  # the bytes that the report's digest is of
    else:
        rows = report.rows()
        print_rows(rows, list(rows[0]), form)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
