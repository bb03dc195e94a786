"""The logs of the mediocre clerks."""

import random
from collections import Counter

from order_desk.customers import CustomerStream
from order_desk.logged_episodes import HABITS, logged_episode


def test_about_a_quarter_of_the_logged_episodes_is_right() -> None:
    rng = random.Random(0)
    episodes = [logged_episode(order, rng) for order in CustomerStream("logs", 0).orders(2000)]
    assert 0.22 < sum(episode.reward for episode in episodes) / len(episodes) < 0.33
    habits = Counter(episode.habit for episode in episodes)
    assert set(habits) == set(HABITS)
    assert all(episode.reward == 1.0 for episode in episodes if episode.habit == "right")


def test_every_call_in_the_logs_is_one_that_the_desk_carries_out() -> None:
    rng = random.Random(1)
    episodes = [logged_episode(order, rng) for order in CustomerStream("logs", 1).orders(300)]
    assert all(call.ok for episode in episodes for call in episode.calls)
