"""The detector of credentials: all rules of `secret_rules.py`, and random words by their look."""

from collections.abc import Sequence
from typing import Final

import regex

from atdp.governance.detect.detector import DetectedSpan
from atdp.governance.detect.random_words import random_words
from atdp.governance.detect.secret_rules import RULES
from atdp.governance.errors import DetectorError

ENTITY: Final = "SECRET"
_SCORE: Final = 0.95
_FLAGS: Final = regex.IGNORECASE


class SecretDetector:
    """All secret rules over one text."""

    entity: str | None = ENTITY
    context: frozenset[str] = frozenset()
    best_score = _SCORE

    def __init__(self, timeout_s: float, *, prefiltered: bool = True) -> None:
        """`prefiltered=False` runs every rule on every text, as a reference for tests."""
        self._timeout_s = timeout_s
        self._prefiltered = prefiltered
        self._rules = [
            (rule, regex.compile(rule.pattern, _FLAGS if rule.ignore_case else 0)) for rule in RULES
        ]
        self._words = sorted({word for rule in RULES for word in rule.words})

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return every credential, by position."""
        spans = [
            DetectedSpan(start, end, ENTITY, _SCORE, "secret:random")
            for start, end in random_words(text)
        ]
        lowered = text.lower()
        present = {word for word in self._words if word in lowered}
        for rule, pattern in self._rules:
            if self._prefiltered and present.isdisjoint(rule.words):
                continue
            try:
                for match in pattern.finditer(text, timeout=self._timeout_s):
                    start, end = match.span("secret")
                    spans.append(DetectedSpan(start, end, ENTITY, _SCORE, f"secret:{rule.name}"))
            except TimeoutError as error:
                raise DetectorError(
                    f"secret rule {rule.name} ran longer than {self._timeout_s} s on one string"
                ) from error
        return sorted(spans)
