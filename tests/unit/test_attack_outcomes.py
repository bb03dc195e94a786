"""What is reported of an attack: one that achieves something, or fails, was not stopped."""

from pathlib import Path

import pytest
from tests.attack.attacks import Attack, try_attack
from tests.attack.target import NotTried, Target

from atdp.runtime import Home


def achieves(_: Target) -> str | None:
    return "3 rows landed"


def is_stopped(_: Target) -> str | None:
    return None


def fails(_: Target) -> str | None:
    raise TimeoutError("nothing came back")


def cannot_be_tried(_: Target) -> str | None:
    raise NotTried("needs root")


@pytest.mark.parametrize(
    ("attempt", "word", "seen"),
    [
        (achieves, "ACHIEVED", "3 rows landed"),
        (is_stopped, "stopped", ""),
        (fails, "FAILED", "TimeoutError: nothing came back"),
        (cannot_be_tried, "not tried", "needs root"),
    ],
)
def test_only_an_attack_that_achieves_nothing_is_stopped(
    tmp_path: Path, attempt: object, word: str, seen: str
) -> None:
    outcome = try_attack(Attack(attempt), Target(Home(tmp_path)))  # type: ignore[arg-type]
    assert (outcome.word, outcome.seen) == (word, seen)
    assert outcome.stopped == (word == "stopped")
    assert outcome.tried == (word != "not tried")
