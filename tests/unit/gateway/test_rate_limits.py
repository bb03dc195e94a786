"""Limits of how often a caller may do something."""

import pytest

from atdp.gateway.rate_limits import RateLimit
from atdp.runtime import HttpProblem


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_caller_gets_its_uses_of_a_minute_and_then_one_at_a_time() -> None:
    clock = Clock()
    limit = RateLimit("this key", 6, clock=clock)
    for _ in range(6):
        limit.take("a")
    with pytest.raises(HttpProblem) as refused:
        limit.take("a")
    assert (refused.value.status, refused.value.retry_after_s) == (429, 10)
    limit.take("b")  # another caller is not concerned
    clock.now += 10
    limit.take("a")
    with pytest.raises(HttpProblem):
        limit.take("a")
    clock.now += 3_600
    for _ in range(6):  # never more than a full bucket
        limit.take("a")
    with pytest.raises(HttpProblem):
        limit.take("a")


def test_memory_is_bounded_and_the_newest_callers_are_kept() -> None:
    limit = RateLimit("this key", 1, max_callers=100, clock=Clock())
    for caller in range(10_000):
        limit.take(caller)
    assert len(limit) == 100
    with pytest.raises(HttpProblem):
        limit.take(9_999)
