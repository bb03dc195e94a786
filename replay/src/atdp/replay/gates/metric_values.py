"""The values of metrics, and violations of invariants, by the SQL of the settings.

The connection can read the rows of one tenant that allow replay, and nothing else.
"""

import math

from atdp.lakehouse import Connection
from atdp.replay.errors import ReplayDataError
from atdp.replay.gates.gate_settings import GateSettings, InvariantGate, MeanGate, PairedGate
from atdp.replay.gates.measured_runs import RunKey


def no_values(settings: GateSettings) -> dict[str, float | None]:
    """Return the values of a trajectory that nobody measured."""
    return dict.fromkeys(gate.name for gate in _measured(settings))


def metric_values(
    connection: Connection, settings: GateSettings, condition: str
) -> dict[RunKey, dict[str, float | None]]:
    """Return the values of every metric for each selected trajectory; infinite ones are missing."""
    gates = _measured(settings)
    expressions = "".join(
        f", TRY_CAST((\n{gate.value}\n) AS DOUBLE) AS value_{index}"
        for index, gate in enumerate(gates)
    )
    # S608: conditions and expressions of the caller, on a connection that can only read.
    rows = connection.all_rows(
        f"SELECT trajectory_id, attempt{expressions} FROM trajectories WHERE {condition}"  # noqa: S608
    )
    values: dict[RunKey, dict[str, float | None]] = {}
    for row in rows:
        numbers = [row[f"value_{index}"] for index in range(len(gates))]
        values[row["trajectory_id"], row["attempt"]] = {
            gate.name: _finite(gate, number) for gate, number in zip(gates, numbers, strict=True)
        }
    return values


def _finite(gate: PairedGate, value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    low, high = gate.range if isinstance(gate, MeanGate) else (-math.inf, math.inf)
    if not low <= value <= high:
        raise ReplayDataError(
            f"metric {gate.name}: a value is outside of the range [{low:g}, {high:g}]; "
            "set `range` in the settings to the range of the value"
        )
    return value


def violated_invariants(
    connection: Connection, settings: GateSettings
) -> dict[RunKey, frozenset[str]]:
    """Return the names of the invariants that trajectories of the connection violate."""
    violations: dict[RunKey, frozenset[str]] = {}
    for gate in settings.metrics:
        if not isinstance(gate, InvariantGate):
            continue
        rows = connection.all_rows(
            f"SELECT DISTINCT trajectory_id, attempt FROM {gate.table} "  # noqa: S608
            f"WHERE (\n{gate.violation}\n)"
        )
        for row in rows:
            key = (row["trajectory_id"], row["attempt"])
            violations[key] = violations.get(key, frozenset()) | {gate.name}
    return violations


def _measured(settings: GateSettings) -> list[PairedGate]:
    return [gate for gate in settings.metrics if not isinstance(gate, InvariantGate)]
