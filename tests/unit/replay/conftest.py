"""Evaluations with known probabilities: a uniform baseline logged, candidates prefer a token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from atdp.replay import PinnedDataset, PolicyVersion, ReplayConfig, ReplayReport, replay
from atdp.replay.coverage import TrajectoryKey
from atdp.replay.scoring import Scorer
from atdp.replay.testing import BigramPolicy, LogPlan, SampledTrajectory

UNIFORM = BigramPolicy.preferring(0, strength=0.0)
Judge = Callable[..., ReplayReport]


@pytest.fixture(scope="session")
def judged() -> Judge:
    """Evaluate a candidate of given strength on trajectories that the uniform baseline logged."""

    def run(
        strength: float,
        *,
        trajectories: list[SampledTrajectory] | None = None,
        tasks: int = 40,
        attempts: int = 6,
        baseline: Scorer = UNIFORM,
        trained_on: Mapping[TrajectoryKey, str | None] | None = None,
        **config: object,
    ) -> ReplayReport:
        scorers: dict[str, Scorer] = {
            "v1": baseline,
            "v2": BigramPolicy.preferring(0, strength=strength),
        }

        @contextmanager
        def open_scorer(policy: PolicyVersion, _: ReplayConfig) -> Iterator[Scorer]:
            yield scorers[policy.version]

        log = (
            UNIFORM.log(LogPlan(tasks=tasks, attempts=attempts, seed=1))
            if trajectories is None
            else trajectories
        )
        return replay(
            PinnedDataset(name="orders", trajectories=log, snapshots={"events": 7}),
            candidate=PolicyVersion(model="orderdesk", version="v2", url=""),
            baseline=PolicyVersion(model="orderdesk", version="v1", url=""),
            config=ReplayConfig(**config),  # type: ignore[arg-type]
            trained_on=trained_on,
            open_scorer=open_scorer,
        )

    return run
