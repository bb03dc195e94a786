"""The report of one evaluation: a value with one canonical form.

The run id is the hash of every input (data, scores, versions, thresholds, code); the same id gives
the same bytes. It holds no clock and no URL. The HTML page is a function of the same value
(`atdp.replay.page`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from atdp.replay.config import ReplayConfig
from atdp.replay.evaluation import Evaluation
from atdp.replay.report_json import rounded_canonical_json, sha256, to_json
from atdp.replay.verdict import Reason, Verdict

FORMAT = "atdp.replay/1"
"""Version of the report and of the arithmetic behind it; part of the run id. Raise it when a number
may change."""


@dataclass(frozen=True, kw_only=True)
class DatasetInput:
    """What was evaluated; see `atdp.replay.dataset.PinnedDataset`."""

    name: str
    snapshots: Mapping[str, int]
    where: str | None
    policy_versions: tuple[str, ...]
    content_sha256: str
    refused: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class PolicyInput:
    """A model version; `weights_sha256` is None when only a URL was known."""

    model: str
    version: str
    weights_sha256: str | None


@dataclass(frozen=True, kw_only=True)
class ReplayInputs:
    """Everything that the result depends on; `scores_sha256` is None when scoring failed."""

    dataset: DatasetInput
    candidate: PolicyInput
    baseline: PolicyInput
    config: ReplayConfig
    scores_sha256: str | None
    trained_on_sha256: str | None = None
    failure: str | None = None
    """What stopped the evaluation, when something did: an outcome that is not a function of the
    rest."""
    format: str = FORMAT

    @property
    def run_id(self) -> str:
        """Hex SHA-256 of the canonical inputs."""
        return sha256(self)


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """Verdict, reasons, numbers, inputs."""

    inputs: ReplayInputs
    verdict: Verdict
    reasons: tuple[Reason, ...]
    evaluation: Evaluation

    @property
    def run_id(self) -> str:
        """Same inputs, same id, same bytes."""
        return self.inputs.run_id

    def canonical(self) -> bytes:
        """Canonical JSON of the report, without its own hash."""
        return rounded_canonical_json({"run_id": self.run_id, **_as_dict(self)})

    @property
    def sha256(self) -> str:
        """Hash of the canonical report: what a release decision cites as its evidence."""
        return sha256(self.canonical())

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 inconclusive, 3 error."""
        return self.verdict.exit_code

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants that the report is evidence about."""
        return tuple(t.tenant for t in self.evaluation.tenants if t.evidenced)

    @property
    def prediction(self) -> float | None:
        """Predicted mean reward of the candidate, None when nothing was estimated."""
        found = self.evaluation.estimate(self.inputs.config.estimator)
        return found.candidate.estimate if found else None

    def text(self) -> str:
        """A short summary for a terminal."""
        inputs, lines = self.inputs, []
        lines.append(
            f"{self.verdict.value}  {inputs.candidate.model} {inputs.candidate.version} against"
            f" {inputs.baseline.version} on {inputs.dataset.name}"
        )
        lines += [f"  {r.code}: {r.text}" for r in self.reasons]
        found = self.evaluation.estimate(inputs.config.estimator)
        if found:
            lines += [
                f"  {name:<10} {v.estimate:+.3f}  [{v.lower:+.3f}, {v.upper:+.3f}]"
                for name, v in (
                    ("candidate", found.candidate),
                    ("baseline", found.baseline),
                    ("difference", found.difference),
                )
            ]
        weights, coverage = self.evaluation.candidate_weights, self.evaluation.coverage
        if weights:
            lines.append(
                f"  effective sample size {weights.least_ess:.1f} of {weights.trajectories} trajectories"
            )
        lines.append(
            f"  coverage {coverage.usable} of {coverage.trajectories} trajectories; run {self.run_id[:16]}"
        )
        return "\n".join(lines)


def _as_dict(report: ReplayReport) -> dict[str, object]:
    fields = to_json(report)
    if not isinstance(fields, dict):
        raise TypeError("a report is a JSON object")
    return dict(fields)
