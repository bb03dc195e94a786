"""The state of a release line, printed for people and for programs.

Every verb that decides ends with it. It is the state in force, which may differ from what the verb
asked for: another person may have decided since.
"""

from typing import assert_never

import typer

from atdp.control import ReleaseStage, ReleaseState, desired_routes
from atdp.stack.cli.output import Format, print_record


def print_state(state: ReleaseState, version: str, form: Format | None) -> None:
    """Print the whole state in a format, or one sentence about a version of the line."""
    if form is None:
        typer.echo(describe_version(state, version))
    else:
        print_record(state_to_json(state), form)


def state_to_json(state: ReleaseState) -> dict[str, object]:
    """Return the JSON form of a state, with the engines that should serve its versions."""
    routes = desired_routes(state)
    canary = state.canary
    return {
        "canary": canary.version if canary else None,
        "canary_passed": canary.passed if canary else None,
        "canary_share": canary.share if canary else None,
        "engines": {
            "canary": routes.canary.serving.engine if routes and routes.canary else None,
            "stable": routes.stable.engine if routes else None,
        },
        "events": state.number,
        "lineage": list(state.lineage),
        "live": state.live.version if state.live else None,
        "model": state.model,
        "tenants": list(state.tenants),
        "versions": {name: version.stage.value for name, version in state.versions.items()},
    }


def describe_version(state: ReleaseState, version: str) -> str:
    """Return one sentence: the stage of a version, and the next step."""
    live, stage = state.lineage[-1], state.versions[version].stage
    share = state.canary.share if state.canary else 0.0
    match stage:
        case ReleaseStage.REGISTERED:
            return (
                f"{version} is a candidate; evaluate it with `atdp replay run --record "
                f"--candidate {version} --baseline {live} --model {state.model} --dataset NAME`"
            )
        case ReleaseStage.CANARY:
            return f"{version} is the canary with {share:.0%} of new sessions"
        case ReleaseStage.PAUSED:
            return (
                f"canary {version} is paused at {share:.0%}; "
                "go on with `atdp control canary resume` or `atdp control rollback`"
            )
        case ReleaseStage.LIVE:
            return f"{version} is live"
        case ReleaseStage.SUPERSEDED | ReleaseStage.ROLLED_BACK | ReleaseStage.REJECTED:
            return f"{version} is {stage}; {live} is live"
        case _:
            assert_never(stage)
