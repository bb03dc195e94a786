"""The tool calls of trajectories, as the flips compare them."""

import json
from collections.abc import Iterable, Mapping

from atdp.lakehouse import Lake, LakehouseError, TableName, connect, sql_literal
from atdp.replay.errors import ReplayDataError
from atdp.replay.gates.flips import Calls
from atdp.replay.gates.measured_runs import RunKey
from atdp.schemas import NotCanonical, canonical_json


def read_calls(
    lake: Lake, snapshots: Mapping[TableName, int], tenant: str, keys: Iterable[RunKey]
) -> dict[RunKey, Calls]:
    """Return the tool calls of trajectories; arguments are compared in canonical form.

    Raises:
        ReplayDataError: the lake cannot be read.
    """
    wanted = set(keys)
    names = ", ".join(sql_literal(name) for name in sorted({name for name, _ in wanted}))
    calls: dict[RunKey, list[tuple[int, str, str]]] = {key: [] for key in wanted}
    if not wanted:
        return {}
    try:
        with connect(lake=lake, tenant=tenant, purpose="replay", snapshots=snapshots) as connection:
            rows = connection.all_rows(
                "SELECT trajectory_id, attempt, step, action.tool_call.name AS tool, "  # noqa: S608
                "action.tool_call.arguments AS arguments FROM events "
                "WHERE kind = 'action' AND action.type = 'tool_call' "
                f"AND trajectory_id IN ({names}) ORDER BY kafka_offset"
            )
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    for row in rows:
        key = (row["trajectory_id"], row["attempt"])
        if key in calls:
            calls[key].append((row["step"] or 0, row["tool"] or "", _canonical(row["arguments"])))
    return dict(calls)


def _canonical(arguments: str | None) -> str:
    """Return the arguments of a call, so that the order of keys makes no difference."""
    try:
        return canonical_json(json.loads(arguments or "null"))
    except (ValueError, NotCanonical):
        return arguments or ""
