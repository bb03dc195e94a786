"""The names of a definition at the time of a run, and what the data of a home request."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.release_decisions import bootstrapped, record_decisions, registered

from atdp.control.events import Body, CandidateRejected
from atdp.replay import Verdict
from atdp.runtime import Home, MemoryRegister, RegisterEntry
from atdp.stack.schedules.data_triggers import DataTriggers
from atdp.stack.schedules.part_process import PartFailed, PartProcess, ProcessParts
from atdp.stack.schedules.run_facts import NOTHING_TO_EVALUATE
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_parts import StackParts
from atdp.stack.schedules.schedule_definition import ScheduleDefinition

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def order(candidate: str | None = None, **fields: Any) -> RunOrder:
    definition = ScheduleDefinition(**{"id": "s", "on": "external", "model": "m", **fields})
    return RunOrder(
        definition=definition,
        logical_time=NOON,
        requested_at=NOON,
        actor="test",
        candidate=candidate,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home in which v1 is live, v2 and v3 are candidates, and v4 was rejected."""
    bodies: list[Body] = [
        bootstrapped("m"),
        registered("v2"),
        registered("v3"),
        registered("v4"),
        CandidateRejected(
            version="v4", weights_sha256="0" * 64, reason_codes=("worse",), report_sha256=None
        ),
    ]
    record_decisions(Home(tmp_path), "m", NOON, *bodies)
    record_decisions(Home(tmp_path), "other", NOON, registered("v9"))
    return Home(tmp_path)


def test_names_stand_for_the_versions_of_the_release_line(home: Home) -> None:
    parts = StackParts(home)
    assert parts.make("resolve", order(), {}) == {"candidate": "v3", "baseline": "v1", "look": 1}
    assert parts.make("resolve", order("v2"), {})["candidate"] == "v2"
    given = parts.make("resolve", order(candidate=None), {"candidate": "v8"})
    assert given["candidate"] == "v3"
    named = order(settings={"look": 3})
    assert parts.make("resolve", named, {})["look"] == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "unknown"},
        {"definition": "canary"},
        {"baseline": "v3"},
    ],
)
def test_without_two_different_versions_there_is_nothing_to_evaluate(
    home: Home, fields: dict[str, str]
) -> None:
    name = fields.pop("definition", None)
    made = order(**fields)
    if name is not None:
        changed = made.definition.model_copy(update={"candidate": name})
        made = RunOrder(definition=changed, logical_time=NOON, requested_at=NOON, actor="test")
    facts = StackParts(home).make("resolve", made, {})
    assert (facts["verdict"], facts["reasons"]) == ("INCONCLUSIVE", [NOTHING_TO_EVALUATE])


def test_an_order_survives_its_json_form() -> None:
    made = order("v2", where="reward > 0", tenants=("acme",), settings={"margin": 0.1})
    assert RunOrder.from_json(made.to_json()) == made


def test_the_dataset_of_a_run_holds_what_began_in_its_window() -> None:
    made = order(window_s=3600, tenants=("acme", "globex"), where="reward > 0 -- all")
    assert made.dataset == "s.20261122t120000z"
    assert made.condition == (
        "started_at < TIMESTAMPTZ '2026-11-22T12:00:00+00:00' "
        "AND started_at >= TIMESTAMPTZ '2026-11-22T11:00:00+00:00' "
        "AND (\nreward > 0 -- all\n) AND tenant_id IN ('acme', 'globex')"
    )
    longest = order(id="x" * 38)
    later = RunOrder(
        definition=longest.definition,
        logical_time=NOON + timedelta(microseconds=1),
        requested_at=NOON,
        actor="test",
    )
    assert len(later.dataset) <= 63


def test_each_registration_of_the_model_is_a_new_candidate(home: Home) -> None:
    definition = order().definition
    points = DataTriggers(home).since("new_candidate", definition, 0)
    assert [point.candidate for point in points] == ["v2", "v3", "v4"]
    assert DataTriggers(home).since("new_candidate", definition, points[1].position) == points[2:]
    assert DataTriggers(Home(home.root / "empty")).since("new_candidate", definition, 0) == []


def test_an_activated_policy_is_new_until_it_was_dealt_with(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = MemoryRegister()
    for number, kind in enumerate(("policy_drafted", "policy_activated", "policy_drafted")):
        register.append(
            RegisterEntry(kind=kind, key=str(number), body={}, actor="a", recorded_at=NOON)
        )
    monkeypatch.setattr("atdp.stack.schedules.data_triggers.open_register", lambda _home: register)
    (point,) = DataTriggers(home).since("policy_activated", order().definition, 0)
    assert (point.position, point.at) == (2, NOON)


def test_a_part_that_takes_too_long_is_ended_with_its_process() -> None:
    before = set(psutil.Process().children())
    slow = PartProcess(["sleep", "60"])
    with pytest.raises(PartFailed, match="did not end in 0 s"):
        slow.ask({}, 0.1)
    assert set(psutil.Process().children()) == before


def test_a_process_that_ends_is_a_failed_part() -> None:
    gone = PartProcess(["false"])
    with pytest.raises(PartFailed, match="ended with 1"):
        gone.ask({}, 60)
    gone.close()


def test_the_process_of_a_run_answers_as_the_parts_do(home: Home) -> None:
    made = order(deadline_s=10**6)
    parts = ProcessParts(home, lambda: NOON)
    try:
        facts = parts.make("resolve", made, {})
        assert facts == StackParts(home).make("resolve", made, {})
        failed = parts.make("evaluate", made, {**facts, "dataset": "none"})
        assert (failed["verdict"], failed["reasons"]) == ("ERROR", ["dataset_error"])
    finally:
        parts.close(made)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_report_is_recorded_with_the_verdict_of_the_measured_gates(
    home: Home, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    """Otherwise a candidate that the gates refused could become the canary."""
    recorded: list[Verdict] = []
    report = SimpleNamespace(verdict=Verdict.PASS)
    flow = SimpleNamespace(record_gate=lambda _, checks: recorded.append(checks))
    monkeypatch.setattr(StackParts, "_report", lambda *_: report)
    monkeypatch.setattr(StackParts, "_flow", lambda *_: nullcontext(flow))
    StackParts(home).make("record", order(), {"verdict": verdict.value})
    assert recorded == [verdict]
