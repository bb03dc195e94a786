"""Presidio's recognizers run here detect what Presidio detects: the same spans and scores."""

import functools
import logging
import logging.config
import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from atdp.governance.detect.prefilters import PREFILTERS
from atdp.governance.detect.presidio import PatternDetector, pattern_detectors
from atdp.governance.detect.presidio_recognizers import recognizer_classes
from atdp.governance.errors import DetectorError

from .detection_corpus import ALPHABET, CORPUS, compared, presidio_spans

DESCRIBED = st.characters(codec="ascii") | st.sampled_from("é\u0660\u2010＋１\u200b")
"""The characters of generated texts."""


@functools.cache
def recognizers() -> Sequence[tuple[Any, PatternDetector, PatternDetector]]:
    """Return the recognizers of every entity that has a prefilter.

    Each item is (Presidio's recognizer, ours without prefilter, ours).
    """
    return [
        (make(), plain, prefiltered)
        for entity in PREFILTERS
        for make, plain, prefiltered in zip(
            recognizer_classes()[entity],
            pattern_detectors(entity, prefiltered=False),
            pattern_detectors(entity),
            strict=True,
        )
    ]


@pytest.mark.parametrize("text", CORPUS)
def test_spans_are_those_of_presidio_with_and_without_prefilters(text: str) -> None:
    for recognizer, plain, prefiltered in recognizers():
        expected = presidio_spans(recognizer, text)
        assert compared(plain.scan(text)) == expected, type(recognizer).__name__
        assert compared(prefiltered.scan(text)) == expected, type(recognizer).__name__


def test_the_corpus_exercises_every_recognizer_with_a_prefilter() -> None:
    silent = [
        type(recognizer).__name__
        for recognizer, _, prefiltered in recognizers()
        if not any(prefiltered.scan(text) for text in CORPUS)
    ]
    assert silent == []


@settings(max_examples=150)
@given(
    st.text(alphabet=ALPHABET, max_size=60)
    | st.lists(st.sampled_from(CORPUS), max_size=3).map(" ".join)
)
def test_prefilters_never_hide_a_span(text: str) -> None:
    for recognizer, _, prefiltered in recognizers():
        assert compared(prefiltered.scan(text)) == presidio_spans(recognizer, text), type(
            recognizer
        ).__name__


def test_a_prefilter_that_is_too_strict_would_be_noticed() -> None:
    """Checks the check: the comparison fails for a prefilter that demands too much."""
    (make,) = recognizer_classes()["EMAIL_ADDRESS"]
    strict = PatternDetector(make(), lambda text: text.endswith("@"))
    assert compared(strict.scan(CORPUS[0])) != presidio_spans(make(), CORPUS[0])


def test_a_pattern_that_runs_out_of_time_is_an_error_not_a_skip() -> None:
    (make,) = recognizer_classes()["CREDIT_CARD"]

    class Slow:
        def finditer(self, text: str, timeout: float) -> object:
            raise TimeoutError

    detector = PatternDetector(make(), None)
    detector._patterns = [(Slow(), 0.3, "slow")]
    with pytest.raises(DetectorError, match="CREDIT_CARD"):
        detector.scan("4111 1111 1111 1111")


def test_presidio_is_loaded_without_network_lists_and_without_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from presidio_analyzer.predefined_recognizers.generic import email_recognizer

    recognizer_classes()
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("presidio-analyzer").error("bob@corp.io")
    assert caplog.records == []
    assert email_recognizer.tldextract.extract("a@b.co.uk").fqdn == "b.co.uk"
    assert email_recognizer.tldextract is not sys.modules["tldextract"]


def described_texts(entity: str) -> st.SearchStrategy[str]:
    """Return texts that Presidio's own patterns of an entity describe, between other characters."""
    patterns = [
        re.compile(pattern.regex, re.DOTALL | re.MULTILINE | re.IGNORECASE)
        for make in recognizer_classes()[entity]
        for pattern in make().patterns
    ]
    described = st.one_of([st.from_regex(each, alphabet=DESCRIBED) for each in patterns])
    around = st.sampled_from(["", " ", "-", ".", "x", "9", "no ", ", ", "(", ": ", "\n", "_"])
    return st.lists(st.tuples(around, described, around).map("".join), max_size=2).map("".join)


def check_against_presidio(entity: str, text: str) -> None:
    for recognizer, plain, prefiltered in recognizers():
        if plain.entity == entity:
            expected = presidio_spans(recognizer, text)
            assert compared(plain.scan(text)) == expected, type(recognizer).__name__
            assert compared(prefiltered.scan(text)) == expected, type(recognizer).__name__


@pytest.mark.parametrize("entity", sorted(PREFILTERS))
def test_texts_that_a_pattern_describes_give_what_presidio_gives(entity: str) -> None:
    settings(max_examples=4)(given(described_texts(entity))(check_against_presidio_of(entity)))()


@pytest.mark.long
@pytest.mark.parametrize("entity", sorted(PREFILTERS))
def test_thousands_of_texts_that_a_pattern_describes(entity: str) -> None:
    settings(max_examples=500)(given(described_texts(entity))(check_against_presidio_of(entity)))()


@pytest.mark.long
def test_thousands_of_texts_made_of_pieces_of_the_corpus() -> None:
    chance = random.Random(5)
    words = [word for text in CORPUS for word in text.split(" ")]
    for _ in range(4_000):
        pieces = chance.choices(words, k=chance.randrange(1, 9))
        text = "".join(piece + chance.choice([" ", " ", "", "-", "\n", ", "]) for piece in pieces)
        for entity in PREFILTERS:
            check_against_presidio(entity, text)


def check_against_presidio_of(entity: str) -> Callable[[str], None]:
    return lambda text: check_against_presidio(entity, text)
