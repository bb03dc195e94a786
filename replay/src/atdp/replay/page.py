"""The report as one self-contained HTML page: no script, no request to anywhere, plots as inline SVG.

Order: the verdict and why, then the evidence, then what was evaluated and how to read it.
Deterministic: the same report gives the same bytes.
"""

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from atdp.replay import plots
from atdp.replay.report import ReplayReport
from atdp.replay.report_json import to_json
from atdp.replay.verdict import Verdict

MEANING = {
    Verdict.PASS: "The candidate may go on to a canary.",
    Verdict.FAIL: "The candidate is rejected: harm, or a missed threshold, is shown.",
    Verdict.INCONCLUSIVE: "This data cannot tell. Collect more, or change less, and ask again.",
    Verdict.ERROR: "The question was not answered. Nothing follows about the candidate.",
}
UNCOVERED_WORDS = {
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
    """The page. Everything that came from data is escaped; only our own SVG is not."""
    evaluation, config = report.evaluation, report.inputs.config
    environment = Environment(
        loader=PackageLoader("atdp.replay", "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    return environment.get_template("report.html.j2").render(
        report=report,
        inputs=report.inputs,
        evaluation=evaluation,
        coverage=evaluation.coverage,
        config=config,
        settings=sorted((to_json(config) or {}).items()),  # type: ignore[union-attr]
        decisive=evaluation.estimate(
            "betting" if config.bound == "guaranteed" else config.estimator
        ),
        refused=config.bound != "guaranteed"
        and bool(plots.REFUSED & {r.code for r in report.reasons}),
        meaning=MEANING[report.verdict],
        words=UNCOVERED_WORDS,
        # Built from numbers and from fixed words; version names inside the SVG are escaped by
        # matplotlib.
        forest=Markup(plots.forest(report)) if evaluation.estimates else None,  # noqa: S704
        weights=Markup(plots.weights(evaluation, min_ess=config.min_ess)),  # noqa: S704
        likelihood=(
            Markup(plots.likelihood(evaluation.likelihood, margin=config.likelihood_margin))  # noqa: S704
            if evaluation.likelihood
            else None
        ),
    )
