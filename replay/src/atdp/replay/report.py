"""The report of one evaluation: a value with one canonical form.

The run id is the digest of every input (data, scores, versions, thresholds, code). The same id
gives the same bytes, because the report holds no time and no URL. The HTML page is a function of
the same value (`atdp.replay.report_page`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from atdp.replay.config import ReplayConfig
from atdp.replay.evaluation import Evaluation
from atdp.replay.junit import JUnitCase
from atdp.replay.report_json import canonical_report, rounded_sha256
from atdp.replay.verdict import Reason, Verdict

FORMAT = "atdp.replay/3"
"""Version of the report and of the arithmetic behind it; part of the run id. Raise it when a number
or a text may change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetInput:
    """The identity of the data; see `atdp.replay.dataset.PinnedDataset`."""

    name: str
    snapshots: Mapping[str, int]
    where: str | None
    policy_versions: tuple[str, ...]
    content_sha256: str
    refused: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyInput:
    """A model version; `weights_sha256` is None when only a URL was known."""

    model: str
    version: str
    weights_sha256: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayInputs:
    """Everything on which the result depends; `scores_sha256` is None when scoring failed."""

    dataset: DatasetInput
    candidate: PolicyInput
    baseline: PolicyInput
    config: ReplayConfig
    scores_sha256: str | None
    trained_on_sha256: str | None = None
    failure: str | None = None
    """The error that stopped the evaluation, if any: a result that does not follow from the other
    inputs."""
    format: str = FORMAT

    @property
    def run_id(self) -> str:
        """The hex SHA-256 of the canonical inputs."""
        return rounded_sha256(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayReport:
    """Verdict, reasons, numbers and inputs of one evaluation."""

    inputs: ReplayInputs
    verdict: Verdict
    reasons: tuple[Reason, ...]
    evaluation: Evaluation

    @property
    def run_id(self) -> str:
        """The id of the run; the same inputs have the same id and give the same bytes."""
        return self.inputs.run_id

    def canonical(self) -> bytes:
        """Return the canonical JSON of the report, without its own digest."""
        return canonical_report(self, run_id=self.run_id)

    @property
    def sha256(self) -> str:
        """The digest of the canonical report, which a release decision cites as its evidence."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR."""
        return self.verdict.exit_code

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants about which the report is evidence."""
        return tuple(t.tenant for t in self.evaluation.tenants if t.evidenced)

    @property
    def prediction(self) -> float | None:
        """The predicted mean reward of the candidate; None when nothing was estimated.

        On trajectories without a valid weight the candidate is taken to do as the log did.
        """
        estimate = self.evaluation.estimate(self.inputs.config.estimator)
        return estimate.candidate.estimate if estimate else None

    @property
    def look_text(self) -> str:
        """The number of this look and the error that it spends, as one line."""
        config = self.inputs.config
        return (
            f"look {config.look} at {self.inputs.candidate.version} against "
            f"{self.inputs.baseline.version}: each bound has an error of {config.spent_alpha:.2g}, "
            f"of {config.alpha:g} for all looks together"
        )

    def junit_cases(self) -> tuple[JUnitCase, ...]:
        """Return the verdict as the one case of a suite."""
        inputs = self.inputs
        versions = f"{inputs.candidate.version} against {inputs.baseline.version}"
        return (
            JUnitCase(
                suite=inputs.candidate.model,
                name=f"{versions} on {inputs.dataset.name}",
                verdict=self.verdict,
                reasons=self.reasons,
            ),
        )

    def text(self) -> str:
        """Return a short summary for a terminal."""
        inputs = self.inputs
        title = (
            f"{self.verdict.value}  {inputs.candidate.model} {inputs.candidate.version} "
            f"against {inputs.baseline.version} on {inputs.dataset.name}"
        )
        lines = [title]
        lines += [f"  {reason.code}: {reason.text}" for reason in self.reasons]
        lines.append(f"  {self.look_text}")
        estimate = self.evaluation.estimate(inputs.config.estimator)
        if estimate:
            lines += [
                f"  {name:<10} {v.estimate:+.3f}  [{v.lower:+.3f}, {v.upper:+.3f}]"
                for name, v in (
                    ("candidate", estimate.candidate),
                    ("baseline", estimate.baseline),
                    ("difference", estimate.difference),
                )
            ]
        weights, coverage = self.evaluation.candidate_weights, self.evaluation.coverage
        if weights:
            lines.append(
                f"  effective sample size {weights.least_ess:.1f} "
                f"of {weights.trajectories} trajectories{weights.cut_text}"
            )
        if unscored := self.evaluation.unscored:
            lines.append(
                f"  {unscored.trajectories} trajectories without a valid weight have a mean reward "
                f"of {unscored.unscored_reward.estimate:.3f}, the others "
                f"{unscored.scored_reward.estimate:.3f}"
            )
        lines.append(
            f"  coverage {coverage.usable} of {coverage.population} trajectories; "
            f"run {self.run_id[:16]}"
        )
        return "\n".join(lines)
