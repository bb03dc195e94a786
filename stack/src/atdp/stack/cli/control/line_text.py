"""Says where a line stands, to people and to programs; every verb that decides ends with it.

What is said is what is in force, which is not always what was asked for: somebody may have decided
since.
"""

import json
from typing import assert_never

import typer

from atdp.control import ReleaseStage, ReleaseState, desired_routes
from atdp.stack.cli.control.context import Format


def show(line: ReleaseState, version: str, form: Format) -> None:
    """Print the whole state as JSON, or one sentence about a version of the line."""
    typer.echo(as_json(line) if form is Format.json else sentence(line, version))


def as_json(line: ReleaseState) -> str:
    """The state of a line, with what engines and routes should be."""
    table = desired_routes(line)
    state = {
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
    return json.dumps(state, indent=1, sort_keys=True)


def sentence(line: ReleaseState, version: str) -> str:
    """Where a version of the line stands, and what follows."""
    live, stage = line.lineage[-1], line.versions[version].stage
    share = line.canary.share if line.canary else 0.0
    match stage:
        case ReleaseStage.REGISTERED:
            return (
                f"{version} is a candidate; evaluate it with `atdp replay --record --candidate {version} --baseline {live}"
                f" --model {line.model} --dataset NAME`"
            )
        case ReleaseStage.CANARY:
            return f"{version} is the canary with {share:.0%} of new sessions"
        case ReleaseStage.PAUSED:
            return f"canary {version} is paused at {share:.0%}; `atdp control canary resume`, or `rollback`"
        case ReleaseStage.LIVE:
            return f"{version} is live"
        case ReleaseStage.SUPERSEDED | ReleaseStage.ROLLED_BACK | ReleaseStage.REJECTED:
            return f"{version} is {stage}; {live} is live"
        case _:
            assert_never(stage)
