"""Pairs of name and value in text: what their detectors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from atdp.governance.detect.detector import DetectedSpan
from atdp.governance.detect.key_names import KeyNames
from atdp.governance.errors import DetectorError

SCORE: Final = 1.0


class PairsInText(ABC):
    """The values of all pairs of one form whose name has a rule."""

    entity: str | None = None
    context: frozenset[str] = frozenset()
    best_score = SCORE

    def __init__(self, names: KeyNames, timeout_s: float) -> None:
        self._names = names
        self._timeout_s = timeout_s

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return one span per value."""
        try:
            return list(self._spans(text))
        except TimeoutError as error:
            raise DetectorError(
                f"{type(self).__name__} searched longer than {self._timeout_s} s"
            ) from error

    @abstractmethod
    def _spans(self, text: str) -> Iterator[DetectedSpan]:
        """Yield the spans.

        Raises:
            TimeoutError: a pattern ran longer than it may.
        """
