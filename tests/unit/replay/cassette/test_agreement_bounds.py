"""The bounds of the difference in agreement miss about as often as they say, in a simulation."""

import numpy as np
import pytest

from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.replay_measures import Ratio, Task, compare_by_task

SETTINGS = CassetteSettings()
SIMULATIONS = 600
STEPS = 8


def agreement(rng: np.random.Generator, chances: np.ndarray) -> list[tuple[Task, Ratio]]:
    """Agreement until the first step that differs, twice for each task."""
    ratios: list[tuple[Task, Ratio]] = []
    for task, chance in enumerate(chances):
        for _ in range(2):
            agreed = min(int(rng.geometric(1 - chance)) - 1, STEPS) if chance < 1 else STEPS
            ratios.append((("acme", str(task)), (float(agreed), float(min(agreed + 1, STEPS)))))
    return ratios


@pytest.mark.parametrize("tasks", [12, 40])
@pytest.mark.parametrize("spread", [(3.0, 1.0), (18.0, 2.0)])
def test_an_agent_like_the_recorded_one_is_seldom_bounded_away_from_it(
    tasks: int, spread: tuple[float, float]
) -> None:
    rng = np.random.Generator(np.random.PCG64(tasks))
    above = below = 0
    for _ in range(SIMULATIONS):
        chances = rng.beta(*spread, size=tasks)
        compared = compare_by_task(agreement(rng, chances), agreement(rng, chances), SETTINGS)
        assert compared is not None
        above += compared.difference.lower > 0
        below += compared.difference.upper < 0
    assert above / SIMULATIONS <= 0.075
    assert below / SIMULATIONS <= 0.075
