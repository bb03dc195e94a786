"""What a detector says about one string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Characters `start` (inclusive) to `end` (exclusive) of the scanned string look like `entity`.

    `score` is in (0, 1]; what counts is decided by the policy. `rule` names the pattern, never the
    value.
    """

    start: int
    end: int
    entity: str
    score: float
    rule: str

    def covers(self, other: "Finding") -> bool:
        """Whether `other` lies within this finding."""
        return self.start <= other.start and self.end >= other.end


class Detector(Protocol):
    """Finds entities in a decoded string.

    `scan` is pure: the same text gives the same findings, in any process. It raises
    `atdp.governance.errors.DetectorError` where it cannot give all of them; it never gives some.
    """

    @property
    def entity(self) -> str | None:
        """The entity of all its findings; `None` when they differ."""
        ...

    @property
    def context(self) -> frozenset[str]:
        """Lower-case words that make a weak finding credible when they stand shortly before it."""
        ...

    @property
    def best_score(self) -> float:
        """The highest score that a finding can have: below an entity's threshold, nothing counts without a context word."""
        ...

    def scan(self, text: str) -> Sequence[Finding]:
        """All findings, in order of position."""
        ...
