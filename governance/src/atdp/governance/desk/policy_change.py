"""One change between two versions of a policy, and changes of sets and of ordered values."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ChangeEffect: TypeAlias = Literal["weaker", "changed", "stricter"]


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One change: its effect, the part of the document, and a sentence for people."""

    effect: ChangeEffect
    part: str
    words: str


def set_changes(
    part: str,
    old: Collection[str],
    new: Collection[str],
    words: tuple[str, str],
    *,
    more_is: ChangeEffect = "stricter",
) -> Iterator[PolicyChange]:
    """Yield added and removed names; `words` are those for an added and for a removed one."""
    less_is: ChangeEffect = "weaker" if more_is == "stricter" else "stricter"
    for name in sorted(set(new) - set(old)):
        yield PolicyChange(more_is, part, words[0].format(name))
    for name in sorted(set(old) - set(new)):
        yield PolicyChange(less_is, part, words[1].format(name))


def order_change(
    part: str, old: str, new: str, strict_first: Sequence[str], words: str
) -> Iterator[PolicyChange]:
    """Yield the change of a word of an order that begins with the strictest."""
    if old != new:
        weaker = strict_first.index(new) > strict_first.index(old)
        yield PolicyChange("weaker" if weaker else "stricter", part, f"{words}: {old} → {new}")


def number_change(
    part: str, old: float, new: float, words: str, *, more_is: ChangeEffect
) -> Iterator[PolicyChange]:
    """Yield the change of a number of which more is weaker or stricter."""
    if old != new:
        less_is: ChangeEffect = "weaker" if more_is == "stricter" else "stricter"
        effect = more_is if new > old else less_is
        yield PolicyChange(effect, part, f"{words}: {old:g} → {new:g}")


def other_change(part: str, old: Any, new: Any, words: str) -> Iterator[PolicyChange]:
    """Yield one line when two values differ."""
    if old != new:
        yield PolicyChange("changed", part, words)
