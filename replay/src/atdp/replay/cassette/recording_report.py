"""The report of a cassette replay or of teacher forcing: a value with one canonical form.

The run id is the digest of every input, the candidate's answers among them, so that the same id
gives the same bytes. The report names trajectories and tools and holds no text of a conversation.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from atdp.replay.cassette.replay_measures import (
    AgreementStep,
    Comparison,
    CoverageStep,
    RewardSummary,
)
from atdp.replay.junit import JUnitCase
from atdp.replay.report import DatasetInput, PolicyInput
from atdp.replay.report_json import canonical_report, rounded_sha256
from atdp.replay.verdict import Reason, Verdict

FORMAT = "atdp.recordings/1"
"""Version of the report and of the arithmetic behind it; part of the run id."""

ReplayMode = Literal["cassette", "teacher"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingInputs:
    """Everything on which the result depends."""

    mode: ReplayMode
    dataset: DatasetInput
    not_replayable: Mapping[str, int]
    candidate: PolicyInput
    baseline: PolicyInput | None
    """None: the recorded agent."""
    settings: Mapping[str, Any]
    changes_sha256: str | None
    """The digest of a changed system prompt and changed tools; None without any."""
    answers_sha256: str | None = None
    """The digest of the candidate's answers and of the baseline's; None when the replay failed."""
    failure: str | None = None
    """The error that stopped the replay, if any."""
    format: str = FORMAT

    @property
    def run_id(self) -> str:
        """The hex SHA-256 of the canonical inputs."""
        return rounded_sha256(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryLine:
    """One recording in the report."""

    tenant: str
    trajectory: str
    attempt: int
    task: str | None
    status: str
    steps: int
    recorded_steps: int
    agreed: int
    """Steps that agree with the recording."""
    first_divergence: int | None
    """Number (from 1) of the first step that the recording does not answer."""
    diverging_tool: str | None
    reward: float | None
    recorded_reward: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingMeasures:
    """The measurements; see `atdp.replay.cassette.replay_measures`."""

    agreement: tuple[AgreementStep, ...] = ()
    self_agreement: tuple[AgreementStep, ...] = ()
    """Of the recorded agent with itself, at an equal prefix."""
    comparison: Comparison | None = None
    """Agreement of candidate and baseline over the tasks that have both."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    coverage: tuple[CoverageStep, ...] = ()
    self_coverage: tuple[CoverageStep, ...] = ()
    outcomes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rewards: RewardSummary | None = None
    likelihood: Comparison | None = None
    """Nats per token of the recorded actions, where the token ids are exact."""
    likelihood_trajectories: int = 0
    trajectories: tuple[TrajectoryLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingReport:
    """Verdict, reasons, measures and inputs of one replay of recordings."""

    inputs: RecordingInputs
    verdict: Verdict
    reasons: tuple[Reason, ...]
    measures: RecordingMeasures

    @property
    def run_id(self) -> str:
        """The id of the run; the same id gives the same bytes."""
        return self.inputs.run_id

    def canonical(self) -> bytes:
        """Return the canonical JSON of the report, without its own digest."""
        return canonical_report(self, run_id=self.run_id)

    @property
    def sha256(self) -> str:
        """The digest of the canonical report."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR."""
        return self.verdict.exit_code

    @property
    def _subject(self) -> str:
        inputs = self.inputs
        against = "the recordings" if inputs.baseline is None else inputs.baseline.version
        return f"{inputs.candidate.version} against {against} on {inputs.dataset.name}"

    def junit_cases(self) -> tuple[JUnitCase, ...]:
        """Return the verdict as the one case of a suite."""
        return (
            JUnitCase(
                suite=f"{self.inputs.mode} {self.inputs.candidate.model}",
                name=self._subject,
                verdict=self.verdict,
                reasons=self.reasons,
            ),
        )

    def text(self) -> str:
        """Return a short summary for a terminal."""
        inputs, measures = self.inputs, self.measures
        title = f"{self.verdict.value}  {inputs.mode}: {inputs.candidate.model} {self._subject}"
        lines = [title]
        lines += [f"  {reason.code}: {reason.text}" for reason in self.reasons]
        if measures.statuses:
            counts = ", ".join(f"{count} {name}" for name, count in measures.statuses.items())
            lines.append(f"  replays: {counts}")
        if measures.comparison is not None:
            candidate, baseline = measures.comparison.candidate, measures.comparison.baseline
            lines.append(
                f"  agreement by step: candidate {candidate.estimate:.3f} "
                f"[{candidate.lower:.3f}, {candidate.upper:.3f}], baseline {baseline.estimate:.3f} "
                f"[{baseline.lower:.3f}, {baseline.upper:.3f}] on {measures.comparison.tasks} tasks"
            )
        rewards = measures.rewards
        if rewards is not None and rewards.mean is not None:
            lines.append(
                f"  reward {rewards.mean:.3f} of the {rewards.rewarded} replays that have one"
            )
        refused = sum(inputs.not_replayable.values())
        lines.append(
            f"  {len(measures.trajectories)} recordings, {refused} not replayable; "
            f"run {self.run_id[:16]}"
        )
        return "\n".join(lines)
