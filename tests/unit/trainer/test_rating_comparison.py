"""The comparison of rated with unrated sessions."""

import numpy as np

from atdp.trainer.rating_comparison import RatingComparison, SessionSums
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey, Turn


def session(n: int, *, turns: int = 2, errors: int = 0) -> TrainingTrajectory:
    turn = Turn(prompt_ids=(1,), output_ids=(2, 3), logprobs=(-0.5, -0.5), versions=("v1",))
    return TrainingTrajectory(
        key=TrajectoryKey("t", f"x{n}", 0),
        task=None,
        turns=(turn,) * turns,
        reward=None,
        status="completed" if n % 2 else "truncated",
        started_us=n,
        partition=0,
        first_offset=n,
        tool_errors=errors,
    )


def test_means_and_versions_are_those_of_the_sessions() -> None:
    sums = SessionSums.of([session(0, turns=1, errors=3), session(1, turns=3)])
    assert [sums.mean(m) for m in ("turns", "output_tokens", "tool_errors", "not_completed")] == [
        2.0,
        4.0,
        1.5,
        0.5,
    ]
    assert dict(sums.versions) == {"v1": 2}
    assert sums.error("turns") == 1.0  # standard deviation sqrt(2), divided by sqrt(2)
    assert SessionSums().mean("turns") is None


def test_sums_of_parts_are_the_sums_of_the_whole_and_read_back_as_written() -> None:
    sessions = [session(n, turns=1 + n % 3, errors=n % 2) for n in range(9)]
    whole = SessionSums.of(sessions)
    assert SessionSums.of(sessions[:4]) + SessionSums.of(sessions[4:]) == whole
    both = RatingComparison(rated=whole, unrated=SessionSums())
    assert RatingComparison.from_json(both.to_json()) == both


def test_a_real_difference_is_named_and_chance_alone_is_named_once_in_twenty() -> None:
    rng = np.random.default_rng(1)

    def sample(mean: float, count: int) -> SessionSums:
        return SessionSums.of(session(1, errors=int(e)) for e in rng.poisson(mean, count))

    apart = RatingComparison(rated=sample(0.2, 200), unrated=sample(0.6, 800))
    assert apart.differing() == ("tool_errors",)
    named = sum(
        bool(RatingComparison(rated=sample(0.5, 50), unrated=sample(0.5, 200)).differing())
        for _ in range(200)
    )
    assert 2 <= named <= 22
