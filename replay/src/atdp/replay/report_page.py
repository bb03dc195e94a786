"""The report as one self-contained HTML page, without scripts and requests; plots are inline SVG.

The page answers first why the verdict is what it is, then shows the evidence, then the inputs. The
same report gives the same bytes.
"""

from markupsafe import Markup

from atdp.replay import evidence_plots, report_plots
from atdp.replay.page_template import page_template
from atdp.replay.report import ReplayReport
from atdp.replay.report_json import rounded_json
from atdp.replay.verdict import Verdict

MEANING = {
    Verdict.PASS: "The candidate may become a canary.",
    Verdict.FAIL: "The candidate is rejected, because it is shown worse.",
    Verdict.INCONCLUSIVE: "The data do not suffice for a verdict. "
    "Evaluate again with more data, or with a candidate that differs less from the baseline.",
    Verdict.ERROR: "The evaluation failed. It says nothing about the candidate.",
}
REASON_TEXTS = {
    "no_token_ids": "token ids missing or changed by redaction",
    "no_logprobs": "no usable log-probabilities",
    "length_mismatch": "log-probabilities do not match the tokens",
    "no_trainable_token": "every token was forced",
    "temperature": "sampled at a temperature other than 1",
    "truncated_support": "sampled with top-p, top-k or min-p",
    "altered_draw": "drawn under a penalty, bias or grammar",
    "sampling_unknown": "sampling parameters not recorded",
    "uncovered_decision": "a decision without a valid weight",
    "no_reward": "no reward yet",
    "no_generation": "no model call",
    "trained_on": "used to train the candidate",
    "task_trained_on": "attempts at a task whose other attempts trained the candidate",
}


def _number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    if value is None:
        return "n/a"
    if abs(value) >= 1e6:
        return f"{value:.2e}"
    return f"{value:{'+' if signed else ''}.{digits}f}"


def render(report: ReplayReport) -> str:
    """Return the page."""
    evaluation, config = report.evaluation, report.inputs.config
    return page_template("report.html.j2", number=_number).render(
        report=report,
        inputs=report.inputs,
        evaluation=evaluation,
        coverage=evaluation.coverage,
        config=config,
        settings=sorted((rounded_json(config) or {}).items()),  # type: ignore[union-attr]
        decisive=evaluation.decisive(config),
        refused=config.bound != "guaranteed" and report_plots.refuses_intervals(report),
        meaning=MEANING[report.verdict],
        reason_texts=REASON_TEXTS,
        plots=_plots(report),
    )


def _plots(report: ReplayReport) -> dict[str, Markup]:
    """Return the plots of what was measured, by their names in the template."""
    evaluation, config = report.evaluation, report.inputs.config
    plots: dict[str, Markup] = {}
    if evaluation.estimates:
        plots["forest"] = report_plots.forest(report)
        plots["weights"] = evidence_plots.weights(evaluation, min_ess=config.min_ess)
    if evaluation.clip_sweep:
        sweep = evaluation.clip_sweep
        plots["clip_sweep"] = evidence_plots.clip_sweep(sweep, min_ess=config.min_ess)
    if evaluation.unscored:
        plots["unscored"] = evidence_plots.unscored(evaluation.unscored, config)
    if evaluation.likelihood:
        margin = config.likelihood_margin
        plots["likelihood"] = report_plots.likelihood(evaluation.likelihood, margin=margin)
    if evaluation.coverage.usable:
        plots["coverage"] = evidence_plots.coverage(evaluation.coverage)
    return plots
