"""The pattern recognizers of Presidio, run by us.

What is used: the regular expressions, checksums and context words of
`presidio_analyzer.predefined_recognizers`. What is not: the analyzer engine, because it skips a
pattern that times out and goes on (fails open), loads an NLP pipeline, and spends most of its time
on explanations. `PatternDetector` gives exactly the spans and scores of `recognizer.analyze`; a
test compares the two.

Two more properties of the original are changed on purpose, and only these:

* a pattern that runs out of time raises `DetectorError`;
* `EmailRecognizer` asks `tldextract`, which downloads a list at its first use; here it uses the
  list that it ships with.

Importing presidio pulls in spaCy, which imports torch and transformers where they are installed: 12
s and 790 MB for a worker that needs neither. They are hidden during the import (1.9 s, 110 MB), and
only if nothing in the process has loaded them yet.
"""

import functools
import importlib
import importlib.abc
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from atdp.governance.detect.finding import Finding
from atdp.governance.detect.prefilters import GATES, Gate
from atdp.governance.errors import DetectorError

PATTERN_TIMEOUT_S = 5.0
"""Longest time for one pattern on one string. Ordinary ones take microseconds; less would refuse
honest text on a loaded machine."""

_HIDDEN_WHILE_IMPORTING = frozenset(
    {"torch", "transformers", "stanza", "gliner", "cupy", "tensorflow", "mxnet"}
)
_IMPORT_LOCK = threading.Lock()


class PatternDetector:
    """One Presidio pattern recognizer, behind a necessary condition.

    `gate` is a cheap test that holds for every text in which the recognizer can find anything;
    `None` runs the patterns always.
    """

    def __init__(
        self, recognizer: Any, gate: Gate | None, timeout_s: float = PATTERN_TIMEOUT_S
    ) -> None:
        self._recognizer = recognizer
        self._gate = gate
        self._timeout_s = timeout_s
        self._finds: str = recognizer.supported_entities[0]
        self.entity: str | None = self._finds
        self.context: frozenset[str] = frozenset(
            word.strip().lower() for word in recognizer.context or ()
        )
        flags = recognizer.global_regex_flags
        regex = importlib.import_module("regex")
        self._patterns = [
            (regex.compile(pattern.regex, flags), float(pattern.score), f"presidio:{pattern.name}")
            for pattern in recognizer.patterns
        ]
        # A checksum that holds lifts a score to 1.
        plain = importlib.import_module("presidio_analyzer").PatternRecognizer.validate_result
        self.best_score = (
            max(score for _, score, _ in self._patterns)
            if type(recognizer).validate_result is plain
            else 1.0
        )
        # IbanRecognizer tries ever shorter ends of a match until its checksum holds.
        self._shortens = type(recognizer).__name__ == "IbanRecognizer"
        # An e-mail address cannot contain these characters, and they are no word characters, so \b
        # holds at every cut: scanning piece by piece gives the same findings, without the quadratic
        # search through long texts.
        self._by_words = type(recognizer).__name__ == "EmailRecognizer"

    def scan(self, text: str) -> Sequence[Finding]:
        """The findings of the recognizer's `analyze`, duplicates removed, in order."""
        if self._gate is not None and not self._gate(text):
            return ()
        try:
            if self._by_words:
                found = [
                    Finding(hit.start + at, hit.end + at, hit.entity, hit.score, hit.rule)
                    for at, word in _words(text)
                    if "@" in word
                    for hit in self._match(word)
                ]
            else:
                found = list(self._match(text))
        except TimeoutError as error:
            raise DetectorError(
                f"recognizer {self.entity} ran longer than {self._timeout_s} s on one string"
            ) from error
        return without_duplicates(found)

    def _match(self, text: str) -> Iterator[Finding]:
        for pattern, score, rule in self._patterns:
            for match in pattern.finditer(text, timeout=self._timeout_s):
                for start, end in self._candidates(match):
                    confirmed = self._judge(text[start:end], score)
                    if confirmed > 0:
                        yield Finding(start, end, self._finds, confirmed, rule)
                        break

    def _candidates(self, match: Any) -> Iterator[tuple[int, int]]:
        start, end = match.span()
        if not self._shortens:
            if end > start:
                yield start, end
            return
        for group in range(len(match.groups()), 0, -1):
            shorter = match.span(group)[1]
            if shorter > 0:
                yield start, shorter
            elif end > start:
                yield start, end

    def _judge(self, value: str, score: float) -> float:
        valid = self._recognizer.validate_result(value)
        if valid is not None:
            score = 1.0 if valid else 0.0
        # IbanRecognizer's own loop never asks invalidate_result; the base class's answer is None,
        # so asking changes nothing.
        return 0.0 if self._recognizer.invalidate_result(value) else score


def without_duplicates(found: Sequence[Finding]) -> Sequence[Finding]:
    """Drop every finding that lies in an equally good or better one of the same entity (Presidio's `remove_duplicates`)."""
    if len(found) < 2:
        return found
    kept: list[Finding] = []
    active: list[Finding] = []
    for item in sorted(
        set(found), key=lambda one: (one.entity, one.start, one.start - one.end, -one.score)
    ):
        active = [one for one in active if one.entity == item.entity and one.end >= item.start]
        if any(one.covers(item) and item.score <= one.score for one in active):
            continue
        active.append(item)
        kept.append(item)
    return kept


def pattern_detectors(
    entity: str, *, timeout_s: float = PATTERN_TIMEOUT_S, gated: bool = True
) -> Sequence[PatternDetector]:
    """Presidio's pattern recognizers for an entity; empty when it has none.

    `gated=False` is the plain reference of the tests.
    """
    return [
        PatternDetector(make(), GATES.get(entity) if gated else None, timeout_s)
        for make in recognizer_classes().get(entity, ())
    ]


@functools.cache
def recognizer_classes() -> Mapping[str, Sequence[Callable[[], Any]]]:
    """Presidio's pattern recognizers by the entity that they find."""
    with _IMPORT_LOCK, _hidden(_HIDDEN_WHILE_IMPORTING):
        predefined = importlib.import_module("presidio_analyzer.predefined_recognizers")
        base = importlib.import_module("presidio_analyzer").PatternRecognizer
    # Its messages quote the text that they are about.
    logging.getLogger("presidio-analyzer").disabled = True
    _pin_suffix_list()
    found: dict[str, list[Callable[[], Any]]] = {}
    for name in predefined.__all__:
        candidate: Any = getattr(predefined, name)
        if inspect.isclass(candidate) and issubclass(candidate, base):
            make: Any = candidate
            for entity in make().supported_entities:
                found.setdefault(entity, []).append(candidate)
    return found


def _pin_suffix_list() -> None:
    tldextract = importlib.import_module("tldextract")
    email: Any = importlib.import_module(
        "presidio_analyzer.predefined_recognizers.generic.email_recognizer"
    )
    bundled = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    email.tldextract = _BundledSuffixes(bundled)


class _BundledSuffixes:
    """Stands where `EmailRecognizer` looks for the module `tldextract`: the same `extract`, without network or cache files."""

    def __init__(self, extract: Callable[[str], Any]) -> None:
        self.extract = functools.lru_cache(maxsize=4096)(extract)


def _words(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for piece in text.replace("\n", " ").replace("\t", " ").replace("\r", " ").split(" "):
        yield start, piece
        start += len(piece) + 1


@contextmanager
def _hidden(names: frozenset[str]) -> Iterator[None]:
    finder = _Refuse(names - sys.modules.keys())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Refuse(importlib.abc.MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *_: object) -> None:
        """Deny the hidden packages; `None` leaves all others to the next finder."""
        if fullname.partition(".")[0] in self._names:
            raise ModuleNotFoundError(
                f"{fullname} is not needed for pattern recognizers", name=fullname
            )
