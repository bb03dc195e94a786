"""One evaluation, from a pinned dataset to a report.

An error of scoring or of the data is not raised: it becomes the verdict ERROR with the message as
its reason. So a release gate that could not be evaluated is never mistaken for one that was not
needed.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import httpx

from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage, TrajectoryKey, select
from atdp.replay.dataset import PinnedDataset
from atdp.replay.decision_arrays import TokenScores
from atdp.replay.errors import ReplayError
from atdp.replay.evaluation import Evaluation, evaluate
from atdp.replay.release_gate import judge_evaluation
from atdp.replay.report import DatasetInput, PolicyInput, ReplayInputs, ReplayReport
from atdp.replay.report_json import rounded_sha256
from atdp.replay.scoring import HttpScorer, Scorer, score
from atdp.replay.verdict import Reason, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyVersion:
    """A model version and the engine that serves it (base URL without a trailing slash)."""

    model: str
    version: str
    url: str
    weights_sha256: str | None = None

    @property
    def as_input(self) -> PolicyInput:
        """The version without its URL, which is not part of the evaluation's identity."""
        return PolicyInput(
            model=self.model, version=self.version, weights_sha256=self.weights_sha256
        )


OpenScorer = Callable[[PolicyVersion, ReplayConfig], AbstractContextManager[Scorer]]
"""Opens a scorer for a policy version."""


@contextmanager
def http_scorer(
    policy: PolicyVersion, config: ReplayConfig, *, token: str = ""
) -> Iterator[Scorer]:
    """Open a scorer that uses the engine at the policy's URL.

    `token` is that of the home's engines; empty: the engine is open to all.
    """
    with httpx.Client(timeout=config.timeout_s, trust_env=False) as client:
        yield HttpScorer(
            client=client,
            url=policy.url.rstrip("/"),
            token=token,
            version=policy.version,
            batch_size=config.batch_size,
        )


def replay(
    dataset: PinnedDataset,
    *,
    candidate: PolicyVersion,
    baseline: PolicyVersion,
    config: ReplayConfig | None = None,
    trained_on: Mapping[TrajectoryKey, str | None] | None = None,
    open_scorer: OpenScorer = http_scorer,
) -> ReplayReport:
    """Evaluate `candidate` against `baseline`.

    The baseline is scored first, so that one engine may serve both in turn. `trained_on` names the
    trajectories that the candidate was trained on, with their tasks; they and other attempts at
    these tasks are set aside, and counted.
    """
    run = _Run(
        dataset=dataset,
        candidate=candidate,
        baseline=baseline,
        config=config or ReplayConfig(),
        evaluation=Evaluation(coverage=_nothing_covered(dataset)),
    )
    failure: str | None = None
    try:
        run.evaluate(trained_on, open_scorer)
        verdict, reasons = judge_evaluation(run.evaluation, run.config)
    except ReplayError as error:
        verdict, failure = Verdict.ERROR, str(error)
        reasons = (Reason(code=error.code, text=failure),)
    return ReplayReport(
        inputs=run.inputs(trained_on, failure),
        verdict=verdict,
        reasons=reasons,
        evaluation=run.evaluation,
    )


@dataclass(kw_only=True, slots=True)
class _Run:
    """The state of one evaluation; it keeps what was measured before an error."""

    dataset: PinnedDataset
    candidate: PolicyVersion
    baseline: PolicyVersion
    config: ReplayConfig
    evaluation: Evaluation
    scores_sha256: str | None = None

    def evaluate(
        self, trained_on: Mapping[TrajectoryKey, str | None] | None, open_scorer: OpenScorer
    ) -> None:
        """Select trajectories, score them with both policies, and measure."""
        population = select(self.dataset.trajectories, trained_on=trained_on)
        self.evaluation = Evaluation(coverage=population.coverage)
        if not population.scored:
            return
        scores: list[TokenScores] = []
        for policy in (self.baseline, self.candidate):
            with open_scorer(policy, self.config) as scorer:
                scores.append(score(population.scored, scorer))
        self.scores_sha256 = _hash_scores(scores)
        self.evaluation = evaluate(
            population,
            candidate=scores[1],
            baseline=scores[0],
            versions=(self.candidate.version, self.baseline.version),
            config=self.config,
        )

    def inputs(
        self, trained_on: Mapping[TrajectoryKey, str | None] | None, failure: str | None
    ) -> ReplayInputs:
        """Return everything on which the result depends."""
        dataset = self.dataset
        return ReplayInputs(
            dataset=DatasetInput(
                name=dataset.name,
                snapshots=dict(dataset.snapshots),
                where=dataset.where,
                policy_versions=dataset.policy_versions,
                content_sha256=dataset.content_sha256,
                refused=dict(dataset.refused),
            ),
            candidate=self.candidate.as_input,
            baseline=self.baseline.as_input,
            config=self.config,
            scores_sha256=self.scores_sha256,
            trained_on_sha256=rounded_sha256(sorted(trained_on.items())) if trained_on else None,
            failure=failure,
        )


def _nothing_covered(dataset: PinnedDataset) -> Coverage:
    return Coverage(
        trajectories=len(dataset.trajectories),
        usable=0,
        set_aside={},
        decisions=0,
        covered=0,
        uncovered={},
    )


def _hash_scores(scores: list[TokenScores]) -> str:
    digest = hashlib.sha256()
    for policy in scores:
        for trajectory in policy:
            for generation in trajectory:
                digest.update(
                    len(generation).to_bytes(8, "little") + generation.astype("<f8").tobytes()
                )
    return digest.hexdigest()
