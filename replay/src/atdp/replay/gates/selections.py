"""Selections of trajectories, such as `v7`, `agent:2.1.0` or `where:agent_id = 'support'`."""

from atdp.lakehouse import sql_literal
from atdp.replay.errors import ConfigError

_FIELDS = {
    "weights": "coalesce(versions.weights, action.generation.policy_versions[1].version)",
    "agent": "agent.version",
    "prompt": "versions.prompt",
    "tools": "versions.tools",
    "harness": "versions.harness",
    "model": "versions.model",
}
"""Prefix → column of `events` that holds the version."""


def selection_condition(selection: str) -> str:
    """Return a selection as an SQL condition over the columns of `trajectories`.

    A name without a prefix is a version of weights. A version selects the trajectories all of whose
    events that state such a version state this one.

    Raises:
        ConfigError: it is not a selection.
    """
    prefix, colon, rest = selection.partition(":")
    if not colon:
        prefix, rest = "weights", selection
    rest = rest.strip()
    if not rest or (prefix != "where" and prefix not in _FIELDS):
        raise ConfigError(
            f"{selection!r} selects no trajectories; give a version of weights (v7), "
            f"{', '.join(f'{name}:VERSION' for name in _FIELDS)}, or where:CONDITION"
        )
    if prefix == "where":
        return f"(\n{rest}\n)"
    version = _FIELDS[prefix]
    # S608: a name of a column, and a literal that is quoted.
    return (
        "(tenant_id, trajectory_id, attempt) IN (SELECT (tenant_id, trajectory_id, attempt) "  # noqa: S608
        f"FROM events WHERE {version} IS NOT NULL GROUP BY tenant_id, trajectory_id, attempt "
        f"HAVING min({version}) = {sql_literal(rest)} AND max({version}) = {sql_literal(rest)})"
    )
