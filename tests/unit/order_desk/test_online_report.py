"""The summary and the page of the online demo, also for broken promises."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.planted_text import plant, shown_without_effect

from order_desk.answered_calls import AnsweredCall
from order_desk.learning_process import NotedEvent
from order_desk.online_evidence import LandedSession, OnlineEvidence, TrainingStep
from order_desk.online_report import write_online_page
from order_desk.online_settings import OnlineDemoSettings
from order_desk.online_summary import OnlineSummary
from order_desk.user_traffic import UserSession


def session(number: int, version: str, *, right: bool) -> UserSession:
    rated = number % 5 == 0
    call = AnsweredCall(trajectory=f"t-{number}", version=version, track="stable")
    return UserSession(
        number=number,
        of_saboteur=number % 40 == 0,
        ended_s=number / 10,
        right=right,
        calls=(call, call),
        rated_up=right is (number % 50 != 0) if rated else None,
        rating_fate="accepted" if rated else None,
    )


def served() -> list[UserSession]:
    first = [session(number, "v1", right=number % 4 == 0) for number in range(400)]
    bad = [session(number, "v3", right=number % 9 == 0) for number in range(400, 500)]
    last = [session(number, "v2", right=number % 4 != 0) for number in range(500, 1000)]
    return [*first, *bad, *last]


def landed(sessions: list[UserSession]) -> dict[str, LandedSession]:
    return {
        each.calls[0].trajectory: LandedSession(
            version=each.version,
            status="idle",
            reward=float(each.rated_up)
            if each.rated_up is not None and not each.of_saboteur
            else None,
            calls=2,
            cost=1e-5,
            eligible=True,
        )
        for each in sessions
    }


SESSIONS = served()
SUMMARY = OnlineSummary(
    home=Path("/home/of/the/run"),
    settings=OnlineDemoSettings(measured=200),
    logged_success=0.287,
    first_version="v1",
    sessions=SESSIONS,
    events=[
        NotedEvent(
            at_s=35.0,
            kind="gate",
            fields={
                "version": "v2",
                "baseline": "v1",
                "verdict": "PASS",
                "reasons": ["clears_threshold", "clears_threshold"],
                "predicted": 0.5,
                "sessions": 60,
            },
        ),
        NotedEvent(at_s=39.0, kind="promoted", fields={"version": "v2"}),
        NotedEvent(at_s=41.0, kind="bad release", fields={"version": "v3"}),
        NotedEvent(at_s=50.0, kind="rolled back", fields={"version": "v3", "reason": "worse"}),
    ],
    bad_version="v3",
    evidence=OnlineEvidence(
        sessions=landed(SESSIONS),
        recognition=[{"rule": "opening", "confidence": 0.99, "calls": 1000}],
        steps=[
            TrainingStep(run="run", step=1, reward=0.3, versions=("v1",), trajectories=16),
            TrainingStep(run="run", step=2, reward=0.4, versions=("v1", "v2"), trajectories=16),
        ],
        history=["bootstrap"],
        lineage=("v1", "v2"),
    ),
    at_peak={"demo": 10**9},
    wall_seconds=300.0,
    step_seconds={"one": 1.0},
)


def broken(summary: OnlineSummary) -> set[str]:
    return {promise for promise, kept in summary.promises.items() if not kept}


def test_a_good_run_keeps_every_promise() -> None:
    assert broken(SUMMARY) == set()
    assert (SUMMARY.before.value, SUMMARY.after.value) == (0.25, 0.75)
    assert SUMMARY.staleness == {"0": 1, "1": 1}
    assert SUMMARY.bad_sessions.sessions == 100


def test_each_promise_can_be_broken() -> None:
    first = SESSIONS[0]
    other = replace(first.calls[0], version="v9")
    swapped = replace(first, calls=SESSIONS[1].calls)
    late = [replace(each, ended_s=each.ended_s + 60) for each in SESSIONS[500:]]
    evidence = SUMMARY.evidence
    costless = {**evidence.sessions, "t-7": replace(evidence.sessions["t-7"], cost=None)}
    bribed = {
        name: replace(each, reward=1.0 if int(name[2:]) % 40 == 0 else None)
        for name, each in evidence.sessions.items()
    }
    cases = {
        "success rises to 60% or more": replace(SUMMARY, sessions=SESSIONS[:500]),
        "no session failed": replace(
            SUMMARY, sessions=[replace(first, failure="HTTP 503"), *SESSIONS[1:]]
        ),
        "no session met two versions, but those of the version taken back": replace(
            SUMMARY, sessions=[replace(first, calls=(first.calls[0], other)), *SESSIONS[1:]]
        ),
        "every session became one trajectory of its own": replace(
            SUMMARY, sessions=[swapped, *SESSIONS[1:]]
        ),
        "serving never stopped": replace(SUMMARY, sessions=[*SESSIONS[:500], *late]),
        "versions that it learned were promoted": replace(
            SUMMARY, evidence=replace(evidence, lineage=("v1",))
        ),
        "the cost of every session is known": replace(
            SUMMARY, evidence=replace(evidence, sessions=costless)
        ),
        "the saboteur's ratings are bounded": replace(
            SUMMARY, evidence=replace(evidence, sessions=bribed)
        ),
        "the bad release served users and was taken back": replace(
            SUMMARY, events=SUMMARY.events[:-1]
        ),
    }
    assert set(cases) == set(SUMMARY.promises)
    for promise, summary in cases.items():
        assert promise in broken(summary), promise


def test_the_page_and_the_summary_show_the_run(tmp_path: Path) -> None:
    page, file = tmp_path / "report.html", tmp_path / "summary.json"
    write_online_page(SUMMARY, page)
    SUMMARY.write(file)
    text, written = page.read_text("utf-8"), json.loads(file.read_text("utf-8"))
    assert text.count("<svg") == 4
    assert "released by mistake" in text
    assert "gate: PASS for v2 against v1 (clears threshold), predicted success 50.0%" in text
    assert "the OpenAI Agents SDK" in text
    assert "<script" not in text
    assert written["success_after"]["success"] == 0.75
    assert all(written["promises"].values())
    console = Console(file=io.StringIO(), width=200)
    SUMMARY.print(console)


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # by such long names
def test_names_in_the_page_do_nothing(tmp_path: Path) -> None:
    evidence = plant(SUMMARY.evidence, "history", "lineage", "rule")
    events = [
        replace(each, fields=plant(each.fields, "version", "baseline", "reasons", "reason"))
        for each in SUMMARY.events
    ]
    write_online_page(replace(SUMMARY, evidence=evidence, events=events), tmp_path / "page.html")
    assert shown_without_effect((tmp_path / "page.html").read_text("utf-8")) > 5


def test_a_run_without_sessions_keeps_no_promise_of_success(tmp_path: Path) -> None:
    empty = replace(SUMMARY, sessions=[], events=[], bad_version=None)
    assert "success rises to 60% or more" in broken(empty)
    write_online_page(empty, tmp_path / "report.html")
    empty.write(tmp_path / "summary.json")
