"""Events of earlier schemas, as they stand in stores, read by today's code."""

import json
from datetime import UTC, datetime

import pytest

from atdp.control import StoreError
from atdp.control.events import SCHEMA, GateRecorded, body_from_json, body_to_json
from atdp.replay import Verdict

GATE_OF_SCHEMA_1 = """
{"version": "v2", "weights_sha256": "5e1f", "baseline": "v1", "verdict": "INCONCLUSIVE",
 "reason_codes": ["interval_spans_threshold"], "report_sha256": "90ab", "run_id": "77",
 "dataset": "orders-7", "snapshots": {"events": 11}, "policy_versions": ["default@1"],
 "tenants": ["acme"], "predicted_reward": 0.61, "decided_at": "2026-01-02T03:04:05Z"}
"""


def test_an_evaluation_that_was_recorded_before_looks_were_counted_is_the_first_look() -> None:
    gate = body_from_json("GateRecorded", json.loads(GATE_OF_SCHEMA_1), schema=1)
    assert isinstance(gate, GateRecorded)
    assert (gate.look, gate.verdict, gate.dataset) == (1, Verdict.INCONCLUSIVE, "orders-7")
    assert gate.decided_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert body_from_json("GateRecorded", body_to_json(gate), schema=SCHEMA) == gate


@pytest.mark.parametrize("schema", [0, SCHEMA + 1])
def test_a_schema_that_this_version_does_not_know_is_refused(schema: int) -> None:
    with pytest.raises(StoreError, match=f"schema {schema}"):
        body_from_json("GateRecorded", json.loads(GATE_OF_SCHEMA_1), schema=schema)


def test_a_new_event_without_its_look_is_refused() -> None:
    with pytest.raises(StoreError, match="does not match its form"):
        body_from_json("GateRecorded", json.loads(GATE_OF_SCHEMA_1), schema=SCHEMA)
