"""The evaluation of a candidate by replay, on held-out tasks that the live version served."""

from atdp.lakehouse import create_dataset
from atdp.replay import (
    ReplayConfig,
    ReplayReport,
    ReplayRequest,
    evaluate_dataset,
    write_report,
)
from order_desk.candidates import Candidate, Prediction
from order_desk.demo_platform import DemoPlatform
from order_desk.errors import DemoError
from order_desk.settings import AGENTS_SQL, HELD_OUT_SQL, MODEL
from order_desk.training import TrainedRun
from order_desk.uplift import Uplift


def evaluate_candidate(
    platform: DemoPlatform, number: int, version: str, *, baseline: str, seed: int
) -> ReplayReport:
    """Pin the held-out tasks that `baseline` served so far, replay them, and write the report.

    Replay looks up by key that no pinned trajectory was trained on.

    Raises:
        DemoError: a pinned trajectory was trained on.
    """
    name = f"held-out-r{number}"
    if not (platform.home.datasets / f"{name}.json").exists():
        condition = f"{AGENTS_SQL} AND {HELD_OUT_SQL} AND weight_version = '{baseline}'"
        create_dataset(platform.lake, name, condition)
    report = evaluate_dataset(
        platform.home,
        ReplayRequest(dataset=name, model=MODEL, candidate=version, baseline=baseline),
        config=ReplayConfig(seed=seed),
    )
    if overlap := report.evaluation.coverage.learned_from:
        raise DemoError(
            f"{overlap} trajectories of the evaluation are of tasks that were trained on; "
            "the split into training and held-out tasks is wrong."
        )
    write_report(report, platform.home.root / "replay" / f"{version}.html")
    return report


def candidate_of(
    number: int, base: str, run: TrainedRun, report: ReplayReport, *, deliberately_bad: bool
) -> Candidate:
    """Return the candidate that `run` trained from `base` in a round, with replay's verdict."""
    return Candidate(
        round=number,
        version=run.published.version,
        parent=base,
        deliberately_bad=deliberately_bad,
        steps=run.steps,
        trajectories_used=run.trajectories_used,
        training_reward=run.rewards,
        verdict=report.verdict.value,
        reasons=tuple(reason.code for reason in report.reasons),
        prediction=_prediction(report),
    )


def _prediction(report: ReplayReport) -> Prediction | None:
    evaluation, weights = report.evaluation, report.evaluation.candidate_weights
    estimate = evaluation.estimate(report.inputs.config.estimator)
    unbiased = evaluation.estimate("pdis")
    if estimate is None or unbiased is None or weights is None:
        return None
    return Prediction(
        estimate=estimate.candidate.estimate,
        lower=estimate.candidate.lower,
        upper=estimate.candidate.upper,
        unbiased=unbiased.candidate.estimate,
        baseline=estimate.baseline.estimate,
        uplift=Uplift(
            value=estimate.difference.estimate,
            lower=estimate.difference.lower,
            upper=estimate.difference.upper,
        ),
        effective_sample_size=weights.least_ess,
        trajectories=weights.trajectories,
    )
