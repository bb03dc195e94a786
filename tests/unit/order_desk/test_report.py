"""The summary, its page and its text on the terminal, also for broken promises."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.planted_text import plant, shown_without_effect

from order_desk.candidates import CanaryOutcome, Candidate, Prediction
from order_desk.event_accounting import EventAccounting
from order_desk.evidence import Ancestor, Evidence, ReleaseDecision
from order_desk.leak_search import LeakReport
from order_desk.rate import Rate
from order_desk.report import render
from order_desk.settings import DemoSettings
from order_desk.summary import Summary
from order_desk.summary_text import print_summary
from order_desk.uplift import Uplift


def rate(successes: int, sessions: int) -> Rate:
    return Rate(successes=successes, sessions=sessions)


def candidate(
    number: int, version: str, parent: str, success: float, *, bad: bool = False
) -> Candidate:
    met = rate(round(success * 380), 380)
    return Candidate(
        round=number,
        version=version,
        parent=parent,
        deliberately_bad=bad,
        steps=4,
        trajectories_used=300,
        training_reward=(0.3, 0.35, 0.4, 0.5),
        verdict="FAIL" if bad else "PASS",
        reasons=("likelihood_collapsed",) if bad else ("better",),
        prediction=Prediction(
            estimate=success - 0.03,
            lower=success - 0.13,
            upper=success + 0.08,
            unbiased=success - 0.05,
            baseline=0.3,
            uplift=Uplift(value=success - 0.33, lower=success - 0.43, upper=success - 0.22),
            effective_sample_size=1.0 if bad else 70.0,
            trajectories=180,
        ),
        canary=None
        if bad
        else CanaryOutcome(
            share=0.5,
            candidate=met,
            live=rate(110, 388),
            verdict="PASS",
            outcome="promoted",
            margin=0.1,
        ),
    )


SUMMARY = Summary(
    home=Path("/home/of/the/run"),
    settings=DemoSettings(),
    logged_success=0.287,
    before=rate(48, 200),
    after=rate(165, 200),
    traffic={
        "before": rate(48, 200),
        "r1": rate(200, 768),
        "canary1": rate(120, 280),
        "r2": rate(420, 768),
        "canary2": rate(180, 280),
        "r3": rate(560, 768),
        "canary3": rate(215, 280),
        "after": rate(165, 200),
    },
    candidates=(
        candidate(1, "v2", "v1", 0.56),
        candidate(2, "v3", "v2", 0.05, bad=True),
        candidate(2, "v4", "v2", 0.74),
        candidate(3, "v5", "v4", 0.82),
    ),
    failures=(),
    evidence=Evidence(
        accounting=EventAccounting(
            events_emitted=40_009,
            raw_records=40_009,
            events_landed=40_000,
            quarantined=9,
            dropped_by_policy=0,
            duplicates=0,
            lost=0,
            surplus=0,
            contradictory=0,
        ),
        emitted_by_channel={"proxy": 25_000, "sdk": 15_009},
        emitted_by_tenant={"acme": 30_009, "globex": 10_000},
        leaks=LeakReport(
            values_planted=310,
            bytes_searched={"topic atdp.audit": 9_000_000, "lake files": 17_000_000},
            left={},
        ),
        findings={"EMAIL_ADDRESS": 512, "PHONE_NUMBER": 260, "CREDIT_CARD": 201, "SECRET": 90},
        withdrawn_rows_trained=0,
        trajectories_trained=2_210,
        by_tenant_and_version=[
            {
                "tenant": tenant,
                "version": version,
                "sessions": 400,
                "success": success,
                "median_latency_ms": 80.0,
                "cost_micro_usd": 17.2,
                "output_tokens": 14.5,
            }
            for tenant in ("acme", "globex")
            for version, success in (("v1", 0.26), ("v2", 0.56), ("v4", 0.74), ("v5", 0.82))
        ],
        quarantine=[{"tenant": "acme", "reason": "tenant_mismatch", "records": 3}],
        ineligible=[{"tenant": "globex", "reason": "consent_withdrawn", "trajectories": 900}],
        throughput=[
            {"second": 10 * n, "sessions_per_s": 12.0 + n % 4, "latency_ms": 300.0 + n}
            for n in range(30)
        ],
        lineage=tuple(
            Ancestor(
                version=version,
                kind="grpo" if parent else "sft",
                parent=parent,
                trajectories=320,
                snapshots={"events": 5174846835771321966, "generations": 1, "rewards": 2},
                policies=("default@1",),
                weights_sha256="ab" * 32,
            )
            for version, parent in (("v5", "v4"), ("v4", "v2"), ("v2", "v1"), ("v1", None))
        ),
        release_history=(
            ReleaseDecision(
                number=1,
                when="2026-11-21 10:00:00Z",
                what="v1 went <live>",
                evidence="from the logs",
            ),
        ),
    ),
    peak_bytes=2_400_000_000,
    at_peak={"demo": 1_100_000_000, "kafka": 400_000_000},
    wall_seconds=372.0,
    step_seconds={"Start the stack": 80.0, "Rounds": 200.0},
)


def test_the_page_is_self_contained_and_escapes_what_it_shows() -> None:
    page = render(SUMMARY)
    assert page.count("<svg") == 4
    assert "v1 went &lt;live&gt;" in page
    assert all(
        word not in page for word in ("<script", "<link", " src=", "@import", ">nan", "nan%")
    )


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # by such long names
def test_names_in_the_page_and_its_plots_do_nothing() -> None:
    names = ("version", "parent", "reasons", "tenant", "reason", "findings", "kind", "policies")
    page = render(plant(SUMMARY, *names))
    assert shown_without_effect(page) > 30
    assert page.partition("<svg")[2].count("&lt;/text&gt;") > 3


def test_every_promise_that_does_not_hold_is_shown_as_broken() -> None:
    evidence = replace(
        SUMMARY.evidence,
        withdrawn_rows_trained=1,
        accounting=replace(SUMMARY.evidence.accounting, duplicates=2),
    )
    broken = replace(
        SUMMARY, after=rate(60, 200), evidence=evidence, candidates=SUMMARY.candidates[:1]
    )
    assert [promise for promise, kept in broken.promises.items() if not kept] == [
        "success at least doubled on fresh tasks",
        "every emitted event has exactly one fate",
        "nothing of globex was trained on",
        "the gate refused the bad candidate",
        "the promoted weights are shown better than the first",
    ]
    assert render(broken).count('class="bad">✗') == 5
    assert "not worse by 10 points" not in render(SUMMARY)


def test_the_summary_is_json_without_nan(tmp_path: Path) -> None:
    SUMMARY.write(tmp_path / "summary.json")
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["success_after"] == 0.825
    assert (written["promoted"], written["live"]) == ("v5", "v5")
    assert [entry["candidate"] for entry in written["rounds"]] == ["v2", "v3", "v4", "v5"]


def test_the_terminal_summary_names_prediction_and_measurement() -> None:
    text = io.StringIO()
    print_summary(SUMMARY, Console(file=text, width=160))
    assert "24.0% before, 82.5% after" in text.getvalue()
    assert "71.0% [61.0%, 82.0%]" in text.getvalue()
    assert "40,009 emitted = 40,000 landed + 9 quarantined" in text.getvalue()


def test_a_demo_without_any_finished_round_can_be_drawn() -> None:
    nothing = replace(
        SUMMARY,
        candidates=(),
        traffic={"before": rate(0, 20), "after": rate(0, 20)},
        evidence=replace(SUMMARY.evidence, throughput=[], findings={}),
    )
    assert render(nothing).count("<svg") == 4


def unjudged() -> Summary:
    """Return a demo whose only canary had no session to judge, so that nothing was promoted."""
    tried = SUMMARY.candidates[0]
    assert tried.canary is not None
    canary = replace(
        tried.canary,
        candidate=rate(0, 0),
        live=rate(0, 0),
        verdict="INCONCLUSIVE",
        outcome="rolled back",
    )
    nothing_averaged = {
        "success": None,
        "median_latency_ms": None,
        "cost_micro_usd": None,
        "output_tokens": None,
    }
    return replace(
        SUMMARY,
        candidates=(replace(tried, canary=canary),),
        traffic={
            "before": rate(0, 0),
            "r1": rate(200, 768),
            "canary1": rate(0, 0),
            "after": rate(48, 200),
        },
        before=rate(0, 0),
        after=rate(48, 200),
        evidence=replace(
            SUMMARY.evidence,
            lineage=SUMMARY.evidence.lineage[-1:],
            by_tenant_and_version=[
                {"tenant": "acme", "version": "v1", "sessions": 4, **nothing_averaged}
            ],
            throughput=[{"second": 0, "sessions_per_s": 1.0, "latency_ms": None}],
        ),
    )


def test_a_canary_that_nobody_judged_is_written_drawn_and_shown_without_figures(
    tmp_path: Path,
) -> None:
    summary, text = unjudged(), io.StringIO()
    summary.write(tmp_path / "summary.json")
    written = json.loads((tmp_path / "summary.json").read_text())
    assert (written["rounds"][0]["measured"], written["success_before"]) == (None, None)
    page = render(summary)
    assert 'none <span class="soft">of 0<br>live none of 0' in page
    assert ">nan" not in page
    assert "nan%" not in page
    print_summary(summary, Console(file=text, width=160))
    assert "none of 0 (live none)" in text.getvalue()
    assert "none before, 24.0% after (0 and 200 tasks" in text.getvalue()
    assert not summary.promises["success at least doubled on fresh tasks"]


def test_where_nothing_was_promoted_nothing_says_so() -> None:
    summary, text = unjudged(), io.StringIO()
    assert summary.promoted is None
    assert summary.to_json()["promoted"] is None
    assert summary.to_json()["live"] == "v1"
    assert "<b>nothing</b><span>promoted; v1 is live" in render(summary)
    print_summary(summary, Console(file=text, width=160))
    assert "Live is orderdesk v1; nothing was promoted." in text.getvalue()
    assert not summary.promises["the promoted weights are shown better than the first"]
