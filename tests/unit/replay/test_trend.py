"""Drift and regressions of successive evaluations, and their page."""

import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.planted_text import PLANTED, plant, shown_without_effect

from atdp.replay import RecordedEvaluation, assess_trend, render_trend
from atdp.replay.trend import MIN_RUNS

START = datetime(2026, 3, 1, 3, tzinfo=UTC)
ROW = RecordedEvaluation(
    run_id="a" * 64,
    logical_time=START,
    occurred_at=START,
    verdict="INCONCLUSIVE",
    reason_codes=("interval_spans_threshold",),
    model="orderdesk",
    candidate="v2",
    baseline="v1",
    dataset="nightly-1",
    mode="superiority",
    margin=0.0,
    candidate_value=0.62,
    candidate_lower=0.55,
    candidate_upper=0.69,
    baseline_value=0.60,
    baseline_lower=0.56,
    baseline_upper=0.64,
    difference=0.02,
    difference_lower=-0.03,
    difference_upper=0.07,
    coverage=0.9,
    usable=90,
    trajectories=100,
    effective_sample_size=55.0,
    logged_reward=0.6,
)


def history(*values: float, **changes: object) -> list[RecordedEvaluation]:
    """Return daily runs with these values of the baseline."""
    return [
        replace(
            ROW,
            run_id=f"{number:064x}",
            logical_time=START + timedelta(days=number),
            baseline_value=value,
            **changes,  # type: ignore[arg-type]
        )
        for number, value in enumerate(values)
    ]


def test_a_value_outside_the_band_of_the_runs_before_is_drift() -> None:
    steady = (0.60, 0.62, 0.59, 0.61, 0.60, 0.62)
    points = assess_trend(history(*steady, 0.50, 0.61))
    assert [point.drifts for point in points[:6]] == [()] * 6
    assert points[6].drifts == ("baseline_value",)
    assert points[7].drifts == ()
    assert points[MIN_RUNS - 1].bands == {}
    band = points[6].bands["baseline_value"]
    # mean 0.60667, standard deviation 0.012111, times sqrt(1 + 1/6), times 4.3299 (t, 5 degrees)
    assert round(band.lower, 4) == 0.55
    assert round(band.upper, 4) == 0.6633
    assert points[7].bands["baseline_value"] == band  # 0.50 was alone


def test_a_lasting_change_is_followed() -> None:
    points = assess_trend(history(*[0.60, 0.62, 0.59, 0.61] * 3, *[0.40, 0.42, 0.39, 0.41] * 5))
    marked = [number for number, point in enumerate(points) if point.drifts]
    assert marked[:2] == [12, 13]
    assert marked[-1] < 20


def test_of_runs_that_differ_by_chance_one_in_a_hundred_is_marked() -> None:
    draw = random.Random(11)
    counted = 0
    for _ in range(150):
        values = (draw.gauss(0.6, 0.05) for _ in range(35))
        points = assess_trend(history(*values))
        counted += sum("baseline_value" in point.drifts for point in points)
    assert 0.006 < counted / (150 * 30) < 0.014


def test_values_that_hardly_move_do_not_mark_every_small_change() -> None:
    points = assess_trend([*history(*[0.6] * 6), *history(0.605), *history(0.62)])
    assert [point.drifts for point in points[6:]] == [(), ("baseline_value",)]


def test_runs_with_another_baseline_or_an_error_make_no_band() -> None:
    other = history(*[0.9] * 8, baseline="v0")
    failed = history(*[0.9] * 8, verdict="ERROR")
    assert assess_trend([*other, *failed, *history(0.6)])[-1].bands == {}
    after = assess_trend([*history(*[0.6] * 6), *history(0.1, verdict="ERROR")])[-1]
    assert after.drifts == ()


def test_a_failure_and_a_pass_that_is_lost_are_regressions() -> None:
    verdicts = ("PASS", "INCONCLUSIVE", "INCONCLUSIVE", "PASS", "ERROR", "INCONCLUSIVE", "FAIL")
    rows = [replace(ROW, verdict=verdict) for verdict in verdicts]
    marked = [point.regression is not None for point in assess_trend(rows)]
    assert marked == [False, True, False, False, False, True, True]
    another = [replace(ROW, verdict="PASS", candidate="v1"), ROW]
    assert assess_trend(another)[-1].regression is None


def test_the_page_needs_nothing_from_elsewhere_links_reports_and_marks_regressions() -> None:
    rows = [*history(*[0.6, 0.62] * 4, 0.3), replace(ROW, verdict="FAIL", run_id="b" * 64)]
    points = assess_trend(rows)
    links = {"b" * 64: "runs/b/report.html"}
    page = render_trend("nightly <b>", points, links)
    assert page == render_trend("nightly <b>", points, links)
    assert "nightly &lt;b&gt;" in page
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', page) == ["runs/b/report.html"]
    assert not re.findall(r"@import|url\((?!#)", page)
    assert page.count("<svg") == 1
    assert page.count("regression: shown worse than the baseline") == 1
    assert page.count("drift: value of the baseline outside") == 1


def test_the_page_says_why_the_newest_run_ended_so_and_numbers_runs_as_the_plot_does() -> None:
    rows = [*history(0.6, 0.62), replace(ROW, verdict="FAIL", reason_codes=("shown_worse",))]
    page = render_trend("nightly", assess_trend(rows))
    assert "newest run: orderdesk v2 against v1, because of shown_worse" in page
    assert "runs: 1 FAIL, 2 INCONCLUSIVE" in page
    table = page[page.index("Runs, newest first") :]
    assert re.findall(r'<td class="n">(\d+)</td>\s*<td class="t">', table) == ["3", "2", "1"]


def test_a_run_without_numbers_and_a_schedule_without_runs_have_a_page() -> None:
    empty = replace(
        ROW,
        verdict="ERROR",
        candidate_value=None,
        candidate_lower=None,
        candidate_upper=None,
        baseline_value=None,
        baseline_lower=None,
        baseline_upper=None,
        difference=None,
        difference_lower=None,
        difference_upper=None,
        effective_sample_size=None,
        logged_reward=None,
        logical_time=None,
    )
    assert "n/a" in render_trend("nightly", assess_trend([empty]))
    assert "no evaluation yet" in render_trend("nightly", ())


def test_names_in_the_page_of_a_trend_do_nothing() -> None:
    names = ("run_id", "model", "candidate", "baseline", "dataset", "reason_codes", "verdict")
    points = plant(assess_trend(history(0.60, 0.62, 0.59)), *names)
    links = {point.row.run_id: f"{PLANTED}.html" for point in points}
    assert shown_without_effect(render_trend(PLANTED, points, links)) > 10
