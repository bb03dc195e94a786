"""Records of the topic `atdp.evaluations`, as the stack publishes them."""

from datetime import datetime
from typing import Any


def evaluation_record(event_id: str, at: datetime, **fields: object) -> dict[str, Any]:
    """Return the record of a PASS of v2 against v1, with other `fields`."""
    return {
        "event_id": event_id,
        "tenant_id": "acme",
        "run_id": "1" * 64,
        "report_sha256": "0" * 64,
        "model": "orderdesk",
        "candidate": "v2",
        "baseline": "v1",
        "dataset": "orders",
        "dataset_sha256": "0" * 64,
        "verdict": "PASS",
        "mode": "superiority",
        "margin": 0.0,
        "alpha": 0.05,
        "estimator": "cwpdis",
        "trajectories": 1,
        "usable": 1,
        "coverage": 1.0,
        "tasks": 1,
        "report_json": "{}",
        "occurred_at": at,
        **fields,
    }
