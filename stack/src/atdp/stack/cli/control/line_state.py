"""The state of a release line, printed for people and for programs.

Every verb that decides ends with it. It is the state in force, which may differ from what the verb
asked for: another person may have decided since.
"""

from typing import assert_never

import typer

from atdp.control import ReleaseStage, ReleaseState, desired_routes
from atdp.stack.cli.output import Format, print_record


def print_line(line: ReleaseState, version: str, form: Format | None) -> None:
    """Print the whole state in a format, or one sentence about a version of the line."""
    if form is None:
        typer.echo(describe_version(line, version))
    else:
        print_record(line_to_json(line), form)


def line_to_json(line: ReleaseState) -> dict[str, object]:
    """Return the state of a line, with the wanted state of engines and routes."""
    routes = desired_routes(line)
    canary = line.canary
    return {
        "canary": canary.version if canary else None,
        "canary_passed": canary.passed if canary else None,
        "canary_share": canary.share if canary else None,
        "engines": {
            "canary": routes.canary.serving.engine if routes and routes.canary else None,
            "stable": routes.stable.engine if routes else None,
        },
        "events": line.number,
        "lineage": list(line.lineage),
        "live": line.live.version if line.live else None,
        "model": line.model,
        "tenants": list(line.tenants),
        "versions": {name: version.stage.value for name, version in line.versions.items()},
    }


def describe_version(line: ReleaseState, version: str) -> str:
    """Return one sentence: the stage of a version, and the next step."""
    live, stage = line.lineage[-1], line.versions[version].stage
    share = line.canary.share if line.canary else 0.0
    match stage:
        case ReleaseStage.REGISTERED:
            return (
                f"{version} is a candidate; evaluate it with `atdp replay --record "
                f"--candidate {version} --baseline {live} --model {line.model} --dataset NAME`"
            )
        case ReleaseStage.CANARY:
            return f"{version} is the canary with {share:.0%} of new sessions"
        case ReleaseStage.PAUSED:
            return (
                f"canary {version} is paused at {share:.0%}; go on with "
                "`atdp control canary resume` or `atdp control rollback`"
            )
        case ReleaseStage.LIVE:
            return f"{version} is live"
        case ReleaseStage.SUPERSEDED | ReleaseStage.ROLLED_BACK | ReleaseStage.REJECTED:
            return f"{version} is {stage}; {live} is live"
        case _:
            assert_never(stage)
