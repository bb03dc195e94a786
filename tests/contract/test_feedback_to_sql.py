"""The whole way of feedback: from HTTP and a rating link, through the gate, to rows of SQL."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from atdp.gateway import EventLog, GatewaySettings, MemoryEventLog, create_app
from atdp.lakehouse import connect
from atdp.rewards import DEFAULT_RULES, Attempt, derive_rewards, parse_rules
from atdp.rewards.evidence_reader import read_evidence
from atdp.schemas import Event, decode

from .gated_path import GatedPath

RULES = parse_rules(DEFAULT_RULES, where="default")
EVENT_ID = "019aa5c0-0000-7000-8000-00000000000f"
QUERY = """
    SELECT feedback.type AS type, feedback.value AS value, feedback.range_max AS range_max,
        feedback.dimension AS dimension, feedback.text AS text, feedback.actor AS actor
    FROM events WHERE kind = 'feedback' ORDER BY kafka_offset
"""


def land(path: GatedPath, log: MemoryEventLog) -> list[Event]:
    """Govern and land what the gateway accepted; returns it."""
    path.log.sink.write(
        path.log.batch(
            path.governed((record.key, record.value, record.headers) for record in log.records)
        )
    )
    return [decode(record.value) for record in log.records]


def test_feedback_is_governed_and_is_in_sql_once(tmp_path: Path) -> None:
    path, log = GatedPath(tmp_path, pattern="[a-z]+@example[.]com"), MemoryEventLog()
    api_key, _ = path.keys.create("acme", "agent")

    async def open_log() -> EventLog:
        return log

    settings = GatewaySettings(home=path.home, engine="http://127.0.0.1:1")
    with TestClient(create_app(settings, open_log=open_log)) as client:
        client.headers["Authorization"] = f"Bearer {api_key}"
        client.post("/v1/sessions", json={"session_id": "s", "end_user": "ann"})
        client.post("/v1/sessions/s/end", json={})
        bodies: list[dict[str, Any]] = [
            {"score": 2, "dimension": "tone", "event_id": EVENT_ID},
            {"comment": "write to ann@example.com", "actor": "bob@example.com"},
        ]
        for body in (bodies[0], *bodies):  # one of them is sent twice
            posted = client.post("/v1/feedback", json={"session_id": "s", **body})
            assert posted.status_code == 200
        link = client.post("/v1/feedback/links", json={"session_id": "s"}).json()["url"]
        del client.headers["Authorization"]
        rude = {"once": "1", "thumbs": "down", "comment": "ann@example.com was rude"}
        for answer in (rude, rude, {"once": "2", "thumbs": "up"}):  # sent twice, then changed
            assert client.post(link, data=answer).status_code == 200
    accepted = land(path, log)
    assert len([event for event in accepted if event.kind == "feedback"]) == 6
    with connect(lake=path.log.lake, tenant="acme") as connection:
        rows = connection.sql(QUERY).dicts()
        assert connection.sql("SELECT count(*) FROM rewards").rows() == [(0,)]
        status = connection.sql("SELECT status FROM trajectories").rows()
        (evidence,) = read_evidence(connection, "acme", [Attempt("acme", "s", 0)], RULES.limits)
    assert status == [("completed",)]
    assert [(row["type"], row["value"], row["range_max"], row["dimension"]) for row in rows] == [
        ("rating", 2.0, 5.0, "tone"),
        ("comment", None, None, None),
        ("thumbs", 0.0, 1.0, None),
        ("thumbs", 1.0, 1.0, None),
    ]
    assert [row["text"] for row in rows] == [
        *(None, "write to <NOTHING>", "<NOTHING> was rude", None)
    ]
    assert rows[1]["actor"].startswith("user-")
    # By the rules of a new home the newest answer of the person counts, as one piece of evidence.
    (reward,) = derive_rewards(RULES, evidence)
    assert (reward.value, len(reward.evidence)) == (1.0, 1)
