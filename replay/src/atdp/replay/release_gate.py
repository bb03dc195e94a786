"""The release gate: from numbers to a verdict. Only sufficient evidence opens it.

The judgement is pure and total. The first rule that applies decides:

1. ERROR: an engine that names the logged weights does not reproduce the logged probabilities. Its
   weights, template or temperature are wrong, so that every other number would be wrong too.
2. FAIL: harm is shown, by value (the upper bound of the difference is below the threshold, with
   sufficient evidence) or by likelihood (a certain loss on successful trajectories).
3. INCONCLUSIVE: evidence is thin or missing; each shortage is a reason.
4. PASS: the lower bound of the difference clears the threshold.

The texts of the reasons are part of a report's canonical bytes, and releases cite the digest of
those bytes. A changed text changes the digest of a repeated evaluation, so the texts change only
together with `atdp.replay.report.FORMAT`.
"""

import math

from atdp.replay.config import ReplayConfig
from atdp.replay.diagnostics import WeightDiagnostics
from atdp.replay.evaluation import Evaluation
from atdp.replay.value_estimates import Estimate
from atdp.replay.verdict import Reason, Verdict


def judge_evaluation(
    evaluation: Evaluation, config: ReplayConfig
) -> tuple[Verdict, tuple[Reason, ...]]:
    """Return the verdict and all reasons for it; the reasons that decide come first."""
    disagreements = _disagreements(evaluation, config)
    if disagreements:
        return Verdict.ERROR, tuple(disagreements)
    decisive = evaluation.decisive(config)
    thin = _thin_evidence(evaluation, config)
    harm = _likelihood_harm(evaluation, config)
    if decisive is not None and not thin and decisive.difference.upper < config.threshold:
        harm.append(
            Reason(
                code="below_threshold",
                text=f"the difference is at most {decisive.difference.upper:+.3f}, "
                f"below the threshold of {config.threshold:+.3f}",
            )
        )
    if harm:
        return Verdict.FAIL, (*harm, *thin)
    if thin:
        return Verdict.INCONCLUSIVE, tuple(thin)
    if decisive is None:
        return Verdict.INCONCLUSIVE, (Reason(code="no_estimate", text="no value was estimated"),)
    return _compare(decisive, config)


def _compare(decisive: Estimate, config: ReplayConfig) -> tuple[Verdict, tuple[Reason, ...]]:
    low, threshold = decisive.difference.lower, config.threshold
    clears = low > threshold if config.mode == "superiority" else low >= threshold
    if clears:
        return Verdict.PASS, (
            Reason(
                code="clears_threshold",
                text=f"with {1 - config.alpha:.0%} confidence the difference is "
                f"at least {low:+.3f}, above the threshold of {threshold:+.3f} ({decisive.title})",
            ),
        )
    return Verdict.INCONCLUSIVE, (
        Reason(
            code="interval_spans_threshold",
            text=f"the difference lies between {low:+.3f} and {decisive.difference.upper:+.3f}, "
            f"on both sides of the threshold of {threshold:+.3f}: "
            f"this data cannot tell differences below {decisive.difference.estimate - low:.3f}",
        ),
    )


def _disagreements(evaluation: Evaluation, config: ReplayConfig) -> list[Reason]:
    return [
        Reason(
            code="engine_disagrees_with_log",
            text=f"the {side}'s engine claims the weights of {agreement.tokens} logged tokens, "
            f"yet its log-probabilities differ by {agreement.mean_abs_nats:.3f} nats per token "
            "on average: other weights, template or tokenizer",
        )
        for side, agreement in (
            ("candidate", evaluation.candidate_agreement),
            ("baseline", evaluation.baseline_agreement),
        )
        if agreement
        and agreement.mean_abs_nats is not None
        and agreement.mean_abs_nats > config.max_engine_disagreement
    ]


def _likelihood_harm(evaluation: Evaluation, config: ReplayConfig) -> list[Reason]:
    likelihood = evaluation.likelihood
    if likelihood is None or likelihood.trajectories < config.min_likelihood_trajectories:
        return []
    loss = likelihood.difference
    if evaluation.tasks < config.min_tasks or loss.upper >= -config.likelihood_margin:
        return []
    return [
        Reason(
            code="likelihood_collapsed",
            text=f"on {likelihood.trajectories} successful trajectories "
            f"the candidate loses {-loss.estimate:.2f} nats per token against the baseline "
            f"(at least {-loss.upper:.2f}; tolerated {config.likelihood_margin:.2f})",
        )
    ]


def _thin_evidence(evaluation: Evaluation, config: ReplayConfig) -> list[Reason]:
    coverage = evaluation.coverage
    if coverage.usable == 0:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in coverage.set_aside.items())
        detail = reasons or "the dataset is empty"
        return [Reason(code="no_usable_trajectory", text=f"nothing could be evaluated ({detail})")]
    thin: list[Reason] = []
    if coverage.trajectory_share < config.min_coverage:
        thin.append(
            Reason(
                code="low_coverage",
                text=f"only {coverage.trajectory_share:.0%} of the trajectories "
                f"have a reward and valid weights; {config.min_coverage:.0%} are needed",
            )
        )
    if evaluation.tasks < config.min_tasks:
        thin.append(
            Reason(
                code="few_tasks",
                text=f"{evaluation.tasks} tasks; {config.min_tasks} are needed for an interval",
            )
        )
    for side, weights in (
        ("candidate", evaluation.candidate_weights),
        ("baseline", evaluation.baseline_weights),
    ):
        thin.extend(_thin_weights(side, weights, config))
    return thin


def _thin_weights(
    side: str, weights: WeightDiagnostics | None, config: ReplayConfig
) -> list[Reason]:
    if weights is None:
        return [Reason(code="no_weights", text=f"the {side} has no weights")]
    thin: list[Reason] = []
    # Written as `not …` so that a NaN counts as thin evidence.
    if not weights.least_ess >= config.min_ess:
        thin.append(
            Reason(
                code="low_effective_sample_size",
                text=f"the log is worth {weights.least_ess:.1f} trajectories of the {side}'s own; "
                f"{config.min_ess:.0f} are needed",
            )
        )
    if not weights.max_weight_share <= config.max_weight_share:
        thin.append(
            Reason(
                code="one_weight_dominates",
                text=f"one trajectory holds {weights.max_weight_share:.0%} "
                f"of the {side}'s weight; {config.max_weight_share:.0%} is the most allowed",
            )
        )
    error = abs(weights.mean_weight - 1.0)
    if not math.isfinite(error) or (
        error > config.max_mean_weight_error and error > 3.0 * weights.mean_weight_stderr
    ):
        thin.append(
            Reason(
                code="weights_off_one",
                text=f"the {side}'s weights average {weights.mean_weight:.3g} instead of 1: "
                "the log does not support this policy",
            )
        )
    return thin
