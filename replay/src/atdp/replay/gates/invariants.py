"""Safety invariants: no violation is tolerated, and their absence needs enough tasks."""

from atdp.replay.gates.evidence import MetricEvidence, coverage_shortage
from atdp.replay.gates.gate_settings import GateSettings, InvariantGate
from atdp.replay.gates.measured_runs import MeasuredRun, TenantRuns
from atdp.replay.gates.paired_tests import p_rate_below, rate_upper_bound


def check_invariant(
    gate: InvariantGate, runs: TenantRuns, settings: GateSettings
) -> MetricEvidence:
    """Return the evidence about an invariant.

    Attempts at one task resemble each other, so a task is one trial; a run without a task is a
    trial of its own. Runs with an incomplete record count only where they show a violation.
    """
    violating = [run for run in runs.candidate.runs if gate.name in run.violations]
    violated = {_trial(run) for run in violating}
    trials = len({_trial(run) for run in runs.candidate.runs if run.whole} | violated)
    before = {_trial(run) for run in runs.baseline.runs}
    before_violated = {_trial(run) for run in runs.baseline.runs if gate.name in run.violations}
    rate = len(violated) / trials if trials else None
    missing = runs.candidate.selected - sum(run.whole for run in runs.candidate.runs)
    alpha = settings.spent_alpha
    return MetricEvidence(
        metric=gate.name,
        kind=gate.kind,
        critical=gate.critical,
        threshold=gate.max_rate,
        better="lower",
        baseline=len(before_violated) / len(before) if before else None,
        candidate=rate,
        estimate=rate,
        lower=0.0,
        upper=rate_upper_bound(len(violated), trials, alpha),
        p_pass=p_rate_below(len(violated), trials, gate.max_rate),
        detectable=rate_upper_bound(0, trials, alpha),
        tasks=trials,
        missing_candidate=missing,
        shortages=tuple(coverage_shortage("candidate", missing, runs.candidate, settings)),
        violations=tuple(run.trajectory_id for run in violating),
    )


def _trial(run: MeasuredRun) -> tuple[str, object]:
    return ("run", run.key) if run.task_id is None else ("task", run.task_id)
