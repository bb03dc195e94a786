"""The list of attacks, and the judgement of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from . import on_engines, on_home, on_keys, on_records, on_requests, on_text, on_topics
from .target import NotTried, Target


@dataclass(frozen=True)
class Attack:
    """An attack: what it tries, and the function that tries it.

    The function returns what it has achieved, or None where it was stopped. A function that fails
    otherwise has not shown that anything stopped it.
    """

    attempt: Callable[[Target], str | None]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.attempt.__name__

    @property
    def description(self) -> str:
        """The attempt in a sentence."""
        return (self.attempt.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attack."""

    word: str
    """`stopped`, `ACHIEVED`, `FAILED` or `not tried`."""
    seen: str = ""

    @property
    def stopped(self) -> bool:
        """True when the attack achieved nothing."""
        return self.word == "stopped"

    @property
    def tried(self) -> bool:
        """False for an attack that this machine does not allow; it is not counted."""
        return self.word != "not tried"


MODULES: Final = (on_records, on_topics, on_engines, on_keys, on_home, on_text, on_requests)
ATTACKS: Final[Sequence[Attack]] = [
    Attack(attempt) for module in MODULES for attempt in module.ATTACKS
]
SLOW: Final = (on_records.copy_under_another_key, on_records.stop_a_partition)
"""They take a minute or most of a gigabyte, and their parts have tests of their own."""


def try_attack(attack: Attack, target: Target) -> Outcome:
    """Return what became of an attack."""
    try:
        achieved = attack.attempt(target)
    except NotTried as reason:
        return Outcome("not tried", str(reason))
    except Exception as error:  # noqa: BLE001 - the other attacks are tried too
        return Outcome("FAILED", f"{type(error).__name__}: {error}")
    return Outcome("stopped") if achieved is None else Outcome("ACHIEVED", achieved)
