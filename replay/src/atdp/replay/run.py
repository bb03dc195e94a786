"""One evaluation from a pinned dataset to a report.

Nothing raised by scoring or by the data escapes as an exception: it becomes the verdict ERROR with
the message as its reason, so that a gate which could not be asked is never mistaken for one that
was not needed.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import httpx

from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage, TrajectoryKey, select
from atdp.replay.dataset import PinnedDataset
from atdp.replay.decisions import TokenScores
from atdp.replay.errors import ReplayError
from atdp.replay.evaluation import Evaluation, evaluate
from atdp.replay.gate import judge
from atdp.replay.report import DatasetInput, PolicyInput, ReplayInputs, ReplayReport
from atdp.replay.report_json import sha256
from atdp.replay.scoring import HttpScorer, Scorer, score
from atdp.replay.verdict import Reason, Verdict


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A model version and where an engine serves it (base URL without a trailing slash)."""

    model: str
    version: str
    url: str
    weights_sha256: str | None = None

    @property
    def as_input(self) -> PolicyInput:
        """The policy without its URL, which is not part of what was evaluated."""
        return PolicyInput(
            model=self.model, version=self.version, weights_sha256=self.weights_sha256
        )


OpenScorer = Callable[[Policy, ReplayConfig], AbstractContextManager[Scorer]]


@contextmanager
def http_scorer(policy: Policy, config: ReplayConfig) -> Iterator[Scorer]:
    """Score over HTTP at the policy's URL."""
    with httpx.Client(timeout=config.timeout_s, trust_env=False) as client:
        yield HttpScorer(
            client=client,
            url=policy.url.rstrip("/"),
            version=policy.version,
            batch_size=config.batch_size,
        )


def replay(
    dataset: PinnedDataset,
    *,
    candidate: Policy,
    baseline: Policy,
    config: ReplayConfig | None = None,
    trained_on: Mapping[TrajectoryKey, str | None] | None = None,
    open_scorer: OpenScorer = http_scorer,
) -> ReplayReport:
    """Evaluate `candidate` against `baseline`; the baseline is scored first, so one engine may serve both in turn.

    `trained_on` are trajectories that the candidate learned from, with their tasks: they and other
    attempts at these tasks are set aside, and counted.
    """
    config = config or ReplayConfig()
    scores_sha256: str | None = None
    failure: str | None = None
    coverage = Coverage(
        trajectories=len(dataset.trajectories),
        usable=0,
        set_aside={},
        decisions=0,
        covered=0,
        uncovered={},
    )
    evaluation = Evaluation(coverage=coverage)
    try:
        usable, coverage = select(dataset.trajectories, trained_on=trained_on)
        evaluation = Evaluation(coverage=coverage)
        scores: list[TokenScores] = []
        for policy in (baseline, candidate) if usable else ():
            with open_scorer(policy, config) as scorer:
                scores.append(score(usable, scorer))
        if usable:
            scores_sha256 = _hash_scores(scores)
            evaluation = evaluate(
                usable,
                coverage,
                candidate=scores[1],
                baseline=scores[0],
                versions=(candidate.version, baseline.version),
                config=config,
            )
        verdict, reasons = judge(evaluation, config)
    except ReplayError as error:
        verdict, failure = Verdict.ERROR, str(error)
        reasons = (Reason(code=error.code, text=failure),)
    return ReplayReport(
        inputs=ReplayInputs(
            dataset=DatasetInput(
                name=dataset.name,
                snapshots=dict(dataset.snapshots),
                where=dataset.where,
                policy_versions=dataset.policy_versions,
                content_sha256=dataset.content_sha256,
                refused=dict(dataset.refused),
            ),
            candidate=candidate.as_input,
            baseline=baseline.as_input,
            config=config,
            scores_sha256=scores_sha256,
            trained_on_sha256=sha256(sorted(trained_on.items())) if trained_on else None,
            failure=failure,
        ),
        verdict=verdict,
        reasons=reasons,
        evaluation=evaluation,
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
