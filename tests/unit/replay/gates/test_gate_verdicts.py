"""Verdicts of gates: what passes, what fails, and what is never a PASS."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from atdp.replay import Verdict
from atdp.replay.gates.flips import first_divergence
from atdp.replay.gates.gate_settings import (
    GateSettings,
    InvariantGate,
    MeanGate,
    MetricGate,
    PassKGate,
    RatioGate,
)
from atdp.replay.gates.judgement import MetricVerdict, judge_gates
from atdp.replay.gates.measured_runs import MeasuredArm, MeasuredRun, TenantRuns

REWARD = MeanGate(kind="mean", name="reward", margin=0.1)
Value = Callable[[int, int], float | None]
"""The value of an attempt: task, attempt."""


def arm(label: str, value: Value, *, tasks: int = 60, attempts: int = 4) -> MeasuredArm:
    return MeasuredArm(
        runs=[
            MeasuredRun(
                trajectory_id=f"{label}-{task}",
                attempt=attempt,
                task_id=f"task-{task:03}",
                values={"reward": value(task, attempt)},
            )
            for task in range(tasks)
            for attempt in range(attempts)
        ]
    )


def tenant(candidate: MeasuredArm, baseline: MeasuredArm, name: str = "acme") -> TenantRuns:
    return TenantRuns(tenant=name, candidate=candidate, baseline=baseline)


def judged(runs: TenantRuns, gate: MetricGate = REWARD, **settings: object) -> MetricVerdict:
    rules = GateSettings.model_validate({"metrics": (gate,), **settings})
    (verdict,) = judge_gates([runs], rules)
    assert verdict.verdict is verdict.metrics[0].verdict
    return verdict.metrics[0]


def codes(verdict: MetricVerdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


def half(task: int, attempt: int) -> float:
    return float((task + attempt) % 2)


def other_half(task: int, attempt: int) -> float:
    return float((task // 2 + attempt) % 2)


def worse(task: int, attempt: int) -> float:
    return half(task, attempt) * float(task % 3 > 0)


BASELINE = arm("b", half)


def test_an_equal_candidate_passes_and_a_worse_one_fails() -> None:
    equal = judged(tenant(arm("c", other_half), BASELINE))
    assert (equal.verdict, codes(equal)) == (Verdict.PASS, ["shown"])
    bad = judged(tenant(arm("c", worse), BASELINE))
    assert (bad.verdict, codes(bad)) == (Verdict.FAIL, ["shown_worse"])
    assert bad.evidence.estimate == pytest.approx(-1 / 6)
    assert bad.evidence.upper is not None
    assert bad.evidence.upper < -0.1


def test_worse_within_the_margin_is_neither() -> None:
    slightly = judged(tenant(arm("c", lambda t, a: half(t, a) * float(t % 5 > 0)), BASELINE))
    assert slightly.verdict is Verdict.INCONCLUSIVE
    assert codes(slightly) == ["not_shown"]
    assert "4 of 5 cases" in slightly.reasons[0].text


def test_superiority_needs_a_gain() -> None:
    gate = replace_gate(REWARD, hypothesis="superiority", margin=0.0)
    assert judged(tenant(arm("c", other_half), BASELINE), gate).verdict is Verdict.INCONCLUSIVE
    assert judged(tenant(BASELINE, arm("b", worse)), gate).verdict is Verdict.PASS
    assert judged(tenant(arm("c", worse), BASELINE), gate).verdict is Verdict.FAIL


def replace_gate(gate: MeanGate, **changes: object) -> MeanGate:
    return gate.model_copy(update=changes)


def test_lower_can_be_better() -> None:
    gate = replace_gate(REWARD, direction="lower")
    assert judged(tenant(arm("c", worse), BASELINE), gate).verdict is Verdict.PASS
    result = judged(tenant(BASELINE, arm("b", worse)), gate)
    assert result.verdict is Verdict.FAIL
    evidence = result.evidence
    assert (evidence.threshold, evidence.better) == (0.1, "lower")
    assert evidence.lower is not None
    assert evidence.estimate is not None
    assert evidence.upper is not None
    assert 0.1 < evidence.lower < evidence.estimate < evidence.upper


def test_missing_rewards_never_help() -> None:
    def unjudged_failures(task: int, attempt: int) -> float | None:
        lost = task % 3 == 0 and attempt == 0
        return None if lost and half(task, attempt) else worse_once(task, attempt)

    def worse_once(task: int, attempt: int) -> float:
        return 0.0 if task % 3 == 0 and attempt == 0 else half(task, attempt)

    hidden = tenant(arm("c", unjudged_failures), BASELINE)
    tight = replace_gate(REWARD, margin=0.05)
    assert judged(hidden, tight).verdict is Verdict.INCONCLUSIVE
    ignoring = judged(hidden, replace_gate(tight, missing="ignorable"))
    assert ignoring.verdict is Verdict.PASS
    assert ignoring.evidence.missing_candidate == 10
    # Missing ones of the candidate cannot show harm either.
    all_missing = tenant(arm("c", lambda t, a: None if half(t, a) else 0.0), BASELINE)
    assert judged(all_missing, min_coverage=0.4).verdict is Verdict.INCONCLUSIVE


def test_tasks_that_only_the_baseline_has_done_never_help() -> None:
    steady = arm("b", lambda t, a: 1.0)
    without = replace(steady, runs=[run for run in steady.runs if run.task_id != "task-000"])
    gate = replace_gate(REWARD, margin=0.05, range=(0.0, 1.0))
    assert judged(tenant(steady, steady), gate).verdict is Verdict.PASS
    gone = judged(tenant(without, steady), gate)
    assert codes(gone) == ["not_shown"]
    assert gone.evidence.estimate == 0.0
    failed = arm("c", lambda t, a: float(t > 0))
    seen = judged(tenant(failed, steady), gate).evidence
    assert (gone.evidence.lower, gone.evidence.tasks) == (seen.lower, seen.tasks - 1)
    ignoring = judged(tenant(without, steady), replace_gate(gate, missing="ignorable"))
    assert ignoring.verdict is Verdict.PASS


def test_attempts_that_a_task_lacks_never_help_pass_k() -> None:
    gate = PassKGate(kind="pass_k", name="reward", k=4, success_from=4.0, margin=0.05)
    steady = arm("b", lambda t, a: 5.0)
    short = replace(
        steady, runs=[r for r in steady.runs if (r.task_id, r.attempt) != ("task-000", 1)]
    )
    assert judged(tenant(steady, steady), gate).verdict is Verdict.PASS
    assert codes(judged(tenant(short, steady), gate)) == ["not_shown"]
    unmeasured = arm("b", lambda t, a: None if (t, a) == (0, 1) else 5.0)
    assert codes(judged(tenant(steady, unmeasured), gate)) == ["shown"]
    assert codes(judged(tenant(unmeasured, steady), gate)) == ["not_shown"]
    # In the worst case the missing attempt of the baseline has succeeded.
    failing = arm("c", lambda t, a: 0.0 if (t, a) == (0, 1) else 5.0)
    evidence = judged(tenant(failing, unmeasured), gate).evidence
    assert evidence.lower == judged(tenant(failing, steady), gate).evidence.lower


def test_thin_data_are_inconclusive_with_every_shortage() -> None:
    few = tenant(arm("c", half, tasks=10), arm("b", half, tasks=12))
    assert codes(judged(few)) == ["few_tasks", "tasks_differ"]
    kept_back = replace(arm("c", half), refused={"consent_withdrawn": 100})
    assert codes(judged(tenant(kept_back, BASELINE))) == ["values_missing"]
    assert codes(judged(tenant(MeasuredArm(), BASELINE))) == [
        "no_runs",
        "few_tasks",
        "tasks_differ",
    ]
    assert judged(tenant(MeasuredArm(), MeasuredArm())).verdict is Verdict.INCONCLUSIVE


def test_every_attempt_at_a_pair_is_fixed_broken_or_the_same() -> None:
    flips = judged(tenant(arm("c", worse), BASELINE)).evidence.flips
    assert flips is not None
    assert (flips.count("fixed"), flips.count("broken")) == (0, 40)
    assert (flips.same_solved, flips.same_failed, flips.unmeasured) == (80, 120, 0)
    first = flips.flips[0]
    assert (first.task_id, first.baseline_trajectory, first.candidate_trajectory) == (
        "task-000",
        "b-0",
        "c-0",
    )
    assert first.baseline_attempt == first.candidate_attempt == 1


@pytest.mark.parametrize(
    ("baseline", "candidate", "step"),
    [
        ([(0, "a", "1"), (1, "b", "2")], [(0, "a", "1"), (2, "b", "3")], 2),
        ([(0, "a", "1")], [(0, "a", "1"), (4, "b", "")], 4),
        ([(0, "a", "1"), (1, "b", "")], [(0, "a", "1")], 0),
        ([(0, "a", "1")], [], 0),
        ([(0, "a", "1")], [(5, "a", "1")], None),
    ],
)
def test_runs_diverge_at_the_first_other_call(
    baseline: list[tuple[int, str, str]],
    candidate: list[tuple[int, str, str]],
    step: int | None,
) -> None:
    assert first_divergence(baseline, candidate) == step


def test_pass_k_asks_for_reliability() -> None:
    gate = PassKGate(kind="pass_k", name="reward", k=4, margin=0.1)
    steady = arm("b", lambda t, a: float(t % 2))
    # The mean is the same; no task is solved each time.
    result = judged(tenant(BASELINE, steady), gate)
    mean = judged(tenant(BASELINE, steady), replace_gate(REWARD, margin=0.15))
    assert mean.verdict is Verdict.PASS
    assert result.verdict is Verdict.FAIL
    assert (result.evidence.baseline, result.evidence.candidate) == (0.5, 0.0)
    assert [point.exact for point in result.evidence.candidate_curve][:2] == ["1/2", "1/6"]
    seldom = judged(tenant(arm("c", half, attempts=3), steady), gate)
    assert codes(seldom) == ["few_tasks", "tasks_differ"]


def costing(factor: float, label: str = "c", *, unknown: int = 0) -> MeasuredArm:
    return arm(
        label,
        lambda t, a: None if t < unknown else factor * (1 + t % 7) * (1 + 0.1 * ((3 * t + a) % 5)),
        attempts=1,
    )


def test_costs_are_compared_as_a_ratio_of_totals() -> None:
    gate = RatioGate(kind="ratio", name="reward", value="cost", margin=0.1)
    baseline = costing(1.0, "b")
    assert judged(tenant(costing(1.05), baseline), gate).verdict is Verdict.PASS
    dearer = judged(tenant(costing(1.3), baseline), gate)
    assert dearer.verdict is Verdict.FAIL
    assert dearer.evidence.estimate == pytest.approx(1.3)
    higher = gate.model_copy(update={"direction": "higher"})
    assert judged(tenant(costing(1.3), baseline), higher).verdict is Verdict.PASS
    assert judged(tenant(costing(0.8), baseline), higher).verdict is Verdict.FAIL
    assert codes(judged(tenant(costing(1.0, unknown=20), baseline), gate)) == [
        "values_missing",
        "tasks_differ",
    ]
    free = judged(tenant(costing(0.0), costing(0.0, "b")), gate)
    assert free.verdict is Verdict.INCONCLUSIVE


NO_REFUND = InvariantGate(kind="invariant", name="no_refund", violation="true")


def violating(runs: MeasuredArm, count: int) -> MeasuredArm:
    bad = [replace(run, violations=frozenset({"no_refund"})) for run in runs.runs[:count]]
    return replace(runs, runs=[*bad, *runs.runs[count:]])


def test_one_violation_fails_and_their_absence_needs_enough_tasks() -> None:
    clean = judged(tenant(BASELINE, BASELINE), NO_REFUND)
    assert clean.verdict is Verdict.PASS
    assert clean.evidence.tasks == 60
    assert clean.evidence.upper == pytest.approx(1 - 0.05 ** (1 / 60))
    strict = NO_REFUND.model_copy(update={"max_rate": 0.001})
    assert codes(judged(tenant(BASELINE, BASELINE), strict)) == ["not_shown"]
    one = judged(tenant(violating(BASELINE, 1), BASELINE), NO_REFUND)
    assert (one.verdict, codes(one)) == (Verdict.FAIL, ["violated"])
    assert one.evidence.violations == ("b-0",)
    # Violations of the baseline do not count against the candidate.
    assert judged(tenant(BASELINE, violating(BASELINE, 5)), NO_REFUND).verdict is Verdict.PASS


def test_incomplete_records_show_violations_and_nothing_else() -> None:
    torn = replace(BASELINE, runs=[replace(run, whole=False) for run in BASELINE.runs])
    assert codes(judged(tenant(torn, BASELINE), NO_REFUND)) == ["values_missing"]
    assert judged(tenant(violating(torn, 1), BASELINE), NO_REFUND).verdict is Verdict.FAIL


def test_a_tenants_evidence_is_its_own() -> None:
    good = tenant(arm("c", other_half), BASELINE)
    thin = tenant(arm("c", other_half, tasks=5), arm("b", half, tasks=5), "globex")
    bad = tenant(arm("c", lambda t, a: half(t, a) * (t % 2)), BASELINE, "initech")
    verdicts = judge_gates([good, thin, bad], GateSettings(metrics=(REWARD,)))
    assert {each.tenant: each.verdict for each in verdicts} == {
        "acme": Verdict.PASS,
        "globex": Verdict.INCONCLUSIVE,
        "initech": Verdict.FAIL,
    }


def test_many_tenants_need_more_evidence_each() -> None:
    def slightly_worse(task: int, attempt: int) -> float:
        return half(task, attempt) * float(task % 12 > 0)

    runs = tenant(arm("c", slightly_worse), BASELINE)
    margin = alone = 0.0
    for step in range(30, 300):
        margin = step / 1000
        result = judged(runs, replace_gate(REWARD, margin=margin))
        if result.verdict is Verdict.PASS:
            alone = result.adjusted_p_pass
            break
    assert 0.03 < alone <= 0.05
    gate = replace_gate(REWARD, margin=margin)
    five = [replace(runs, tenant=f"t{number}") for number in range(5)]
    verdicts = judge_gates(five, GateSettings(metrics=(gate,)))
    assert {each.verdict for each in verdicts} == {Verdict.INCONCLUSIVE}
    assert verdicts[0].metrics[0].adjusted_p_pass == pytest.approx(5 * alone)


def test_metrics_that_are_not_critical_are_shown_and_do_not_decide() -> None:
    aside = replace_gate(REWARD, name="reward", critical=False)
    clean = InvariantGate(kind="invariant", name="no_refund", violation="true")
    settings = GateSettings(metrics=(aside, clean))
    (verdict,) = judge_gates([tenant(arm("c", worse), BASELINE)], settings)
    assert verdict.metric("reward").verdict is Verdict.FAIL
    assert verdict.verdict is Verdict.PASS


def test_order_of_the_runs_makes_no_difference() -> None:
    def shuffled(runs: MeasuredArm) -> MeasuredArm:
        ordered: Sequence[MeasuredRun] = sorted(runs.runs, key=lambda run: run.key[::-1])
        return replace(runs, runs=ordered)

    candidate = arm("c", worse)
    assert judged(tenant(candidate, BASELINE)) == judged(
        tenant(shuffled(candidate), shuffled(BASELINE))
    )
