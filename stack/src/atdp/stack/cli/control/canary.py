"""Verbs about the version under trial."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from atdp.control import CanaryAnalysis, CanaryPolicy, analyse_canary
from atdp.lakehouse import open_lake
from atdp.replay import Verdict
from atdp.stack.cli.control.context import AsFormat, Format, Model, Reason, recording
from atdp.stack.cli.control.state import show
from atdp.stack.cli.exits import codes_are_verdicts
from atdp.stack.cli.homes import existing_home

_LOOK_EVERY_S = 5.0
_DEFAULT_POLICY = CanaryPolicy()


def start(
    version: str,
    share: Annotated[
        list[float],
        typer.Option("--share", help="Share of new sessions; repeat for steps to come."),
    ],
    model: Model = None,
    margin: Annotated[
        float, typer.Option(help="Tolerated loss of success rate.")
    ] = _DEFAULT_POLICY.margin,
    min_sessions: Annotated[
        int, typer.Option(help="Least sessions with an outcome on each side.")
    ] = _DEFAULT_POLICY.min_sessions,
    success_from: Annotated[
        float, typer.Option(help="Least reward of a session that counts as a success.")
    ] = _DEFAULT_POLICY.success_from,
    output: AsFormat = Format.table,
) -> None:
    r"""Give a candidate that passed replay its first share of new sessions.

    \b
    Example:
      atdp control canary start v2 --share 0.2 --share 0.5
    """
    with recording(model) as flow:
        policy = CanaryPolicy(margin=margin, min_sessions=min_sessions, success_from=success_from)
        line = flow.start_canary(version, share=share, policy=policy)
    show(line, version, output)


def judge(
    context: typer.Context,
    model: Model = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", help="Keep looking for up to this many seconds until it is decided.", min=0
        ),
    ] = 0.0,
    output: AsFormat = Format.table,
) -> None:
    r"""Judge the canary by the sessions that have landed since its step began, and record what follows.

    PASS opens its next step (`advance`, or `promote` after the last), FAIL rolls it back at once,
    INCONCLUSIVE means that more sessions are needed, or that somebody has to look. Looking often
    does not make a wrong verdict likelier. Exit code 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 an error.

    \b
    Example:
      atdp control canary judge --model orderdesk --wait 600
    """
    codes_are_verdicts(context)
    deadline = time.monotonic() + wait
    with recording(model) as flow:
        lake = open_lake(existing_home())
        while True:
            look = analyse_canary(flow, lake)
            undecided = look.judgement.verdict is Verdict.INCONCLUSIVE and not look.judgement.hold
            left_s = deadline - time.monotonic()
            if not undecided or left_s <= 0:
                break
            Console(stderr=True).print(f"[dim]{_sentence(look)}[/]")
            time.sleep(min(_LOOK_EVERY_S, left_s))
    if output is Format.json:
        typer.echo(json.dumps(asdict(look), indent=1, sort_keys=True))
    else:
        typer.echo(_sentence(look))
    raise typer.Exit(look.judgement.verdict.exit_code)


def _sentence(look: CanaryAnalysis) -> str:
    found, counts = look.judgement, look.counts
    bounds = (
        ""
        if found.difference is None
        else f", difference {found.difference:+.3f} [{found.lower:+.3f}, {found.upper:+.3f}]"
    )
    return (
        f"canary {look.version} at {look.share:.0%}: {found.verdict} ({', '.join(found.reason_codes)}); "
        f"{counts.canary_successes} of {counts.canary_judged} succeeded ({counts.canary_sessions} sessions), live "
        f"{counts.stable_successes} of {counts.stable_judged} ({counts.stable_sessions}){bounds}"
    )


def advance(version: str, model: Model = None, output: AsFormat = Format.table) -> None:
    r"""Take the canary's next step.

    \b
    Example:
      atdp control canary advance v2
    """
    with recording(model) as flow:
        line = flow.raise_share(version)
    show(line, version, output)


def resume(
    version: str, reason: Reason, model: Model = None, output: AsFormat = Format.table
) -> None:
    r"""Go on with a paused canary; its comparison starts anew.

    \b
    Example:
      atdp control canary resume v2 --reason "the load balancer is fixed"
    """
    with recording(model) as flow:
        line = flow.resume(version, reason=reason)
    show(line, version, output)
