"""`atdp replay gate`: its options, its output and its exit code.

The gates themselves are `atdp.replay.evaluate_gates`.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import FormatOption, JsonOption, choose_format
from atdp.stack.cli.replay.verdict_output import JUnitFile, ReportFile, VerdictFiles, end


def gate(  # noqa: PLR0913 (one for each option of the command)
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
    report: ReportFile = None,
    junit: JUnitFile = None,
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
    from atdp.replay import (
        GateRequest,
        evaluate_gates,
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
    files, chosen = VerdictFiles(report, junit), choose_format(form, as_json)
    with files.judging():
        rules = None if settings is None else read_gate_settings(settings)
        result = evaluate_gates(existing_home(), request, rules)
    end(result, chosen, files, partial(write_gate_report, result), rows=result.rows())
