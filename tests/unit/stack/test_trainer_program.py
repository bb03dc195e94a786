"""The trainer of `atdp learn` waits, in its process, while it is too far ahead of what serves."""

import threading

from atdp.stack.learning.trainer_process import PAUSED
from atdp.stack.learning.trainer_program import train_within_reach


def test_a_run_that_is_too_far_ahead_waits_and_goes_on_when_it_is_not() -> None:
    ahead = iter([True, True, False])
    ends = iter([True, False])
    trained: list[bool] = []

    def train() -> bool:
        trained.append(True)
        return next(ends)

    assert train_within_reach(train, lambda: next(ahead), threading.Event()) == 0
    assert len(trained) == 2
    assert next(ahead, None) is None


def test_a_run_that_waits_ends_when_it_is_asked_to_pause() -> None:
    asked = threading.Event()
    threading.Timer(0.2, asked.set).start()
    assert train_within_reach(lambda: True, lambda: True, asked) == PAUSED
