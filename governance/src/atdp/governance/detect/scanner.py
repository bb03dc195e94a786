"""From raw findings to decisions: thresholds, context, overlaps, and a cache by content.

`Scanner` runs every detector of a policy over a string and answers with spans that do not overlap,
one decision per character:

* a finding counts from its entity's `min_score` on; one below that is lifted by 0.35, to 0.4 at
  least, when a context word of its recognizer stands among the five words before it or in the name
  of the key that holds the string (the figures are those of Presidio's `LemmaContextAwareEnhancer`;
  that one needs a tokenizer and looks at lemmas, this one compares lower-case words);
* overlapping findings become one span over all of them, decided by the highest severity, then by
  the longest.

Results are cached by a keyed hash of the text, so that the cache never holds a text or anything
that could be guessed from a dump of it.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atdp.governance.budget import check_budget
from atdp.governance.byte_lru import Memory
from atdp.governance.detect.finding import Detector, Finding
from atdp.governance.errors import DetectorError, Refusal

_LIFT = 0.35
_LIFTED_AT_LEAST = 0.4
_WORDS_BEFORE = 5
# Enough characters to hold five words; longer ones are no context words.
_WINDOW_CHARS = 100
_SPAN_BYTES = 150
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` (inclusive) to `end` (exclusive) are `entity`."""

    start: int
    end: int
    entity: str


@dataclass(frozen=True, slots=True)
class EntityThreshold:
    """What makes a finding of one entity count.

    `bare_digits` false: digits without punctuation count only in context.
    """

    min_score: float
    severity: int
    context: frozenset[str] | None
    bare_digits: bool


class Scanner:
    """All detectors of one policy.

    Not for use from several threads at once (the cache is not locked).
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        thresholds: Mapping[str, EntityThreshold],
        *,
        leaf_chars: int,
        cache_bytes: int = 32 * 1024 * 1024,
    ) -> None:
        self._thresholds = dict(thresholds)
        self._detectors = tuple((detector, self._indispensable(detector)) for detector in detectors)
        self._leaf_chars = leaf_chars
        self._cache = Memory[tuple[Span, ...]](cache_bytes)
        self._cache_key = os.urandom(16)
        own = [
            threshold.context for threshold in thresholds.values() if threshold.context is not None
        ]
        self._context_words = frozenset().union(*own, *(detector.context for detector in detectors))

    def scan(self, text: str, key: str = "") -> Sequence[Span]:
        """Spans by position.

        `key` is the name of the JSON key that holds the text: its words count as context.

        Raises:
            Refusal: the text is longer than the policy allows or not valid Unicode, a detector
                failed, or the record's time is spent.
        """
        if not text:
            return ()
        if len(text) > self._leaf_chars:
            raise Refusal(
                "leaf_too_long", f"one string has more than {self._leaf_chars} characters"
            )
        nearby = self._context_words.intersection(_words(key)) if key else frozenset()
        try:
            encoded = text.encode()
        except UnicodeEncodeError as error:
            raise Refusal("lone_surrogate", "a string holds half of a surrogate pair") from error
        # The length first: else a text could end like another's context words.
        digest = hashlib.blake2b(b"%d\x1f" % len(encoded), digest_size=16, key=self._cache_key)
        digest.update(encoded)
        digest.update("\x1f".join(sorted(nearby)).encode())
        at = digest.digest()
        spans = self._cache.get(at)
        if spans is None:
            spans = self.scan_uncached(text, nearby)
            self._cache.put(at, spans, _SPAN_BYTES * len(spans))
        return spans

    def scan_uncached(self, text: str, nearby: frozenset[str] = frozenset()) -> tuple[Span, ...]:
        """What `scan` remembers."""
        counted = []
        lowered = text.lower()
        for detector, words in self._detectors:
            if (
                words is not None
                and not nearby & words
                and not any(word in lowered for word in words)
            ):
                continue
            try:
                check_budget()
                found = detector.scan(text)
            except Refusal:
                raise
            except Exception as error:
                # Whatever a recognizer trips over, its findings are unknown: the record must not
                # pass.
                raise DetectorError(
                    f"{type(detector).__name__} failed: {type(error).__name__}"
                ) from error
            counted += [
                finding
                for finding in found
                if self._counts(text, finding, detector.context, nearby)
            ]
        return self._merged(counted)

    def _indispensable(self, detector: Detector) -> frozenset[str] | None:
        """The context words without which no finding of the detector counts; `None` when some count anyway."""
        threshold = self._thresholds.get(detector.entity) if detector.entity is not None else None
        if threshold is None or detector.best_score >= threshold.min_score:
            return None
        return detector.context if threshold.context is None else threshold.context

    def _counts(
        self,
        text: str,
        finding: Finding,
        recognizer_context: frozenset[str],
        nearby: frozenset[str],
    ) -> bool:
        threshold = self._thresholds.get(finding.entity)
        if threshold is None:
            return False
        needs_context = finding.score < threshold.min_score or (
            not threshold.bare_digits and text[finding.start : finding.end].isdecimal()
        )
        if not needs_context:
            return True
        if max(finding.score + _LIFT, _LIFTED_AT_LEAST) < threshold.min_score:
            return False
        words = recognizer_context if threshold.context is None else threshold.context
        if nearby & words:
            return True
        before = _words(text[max(0, finding.start - _WINDOW_CHARS) : finding.start])[
            -_WORDS_BEFORE:
        ]
        return not words.isdisjoint(before)

    def _merged(self, findings: Sequence[Finding]) -> tuple[Span, ...]:
        spans: list[Span] = []
        cluster: list[Finding] = []
        end = -1
        for finding in sorted(findings):
            if cluster and finding.start >= end:
                spans.append(self._decide(cluster))
                cluster = []
                end = -1
            cluster.append(finding)
            end = max(end, finding.end)
        if cluster:
            spans.append(self._decide(cluster))
        return tuple(spans)

    def _decide(self, cluster: Sequence[Finding]) -> Span:
        strongest = max(
            cluster,
            key=lambda one: (
                self._thresholds[one.entity].severity,
                one.end - one.start,
                one.score,
                one.entity,
            ),
        )
        return Span(cluster[0].start, max(one.end for one in cluster), strongest.entity)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
