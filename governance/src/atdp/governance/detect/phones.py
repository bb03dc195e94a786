"""Phone numbers: the results of Presidio's `PhoneRecognizer`, in less time.

The candidate search of `phonenumbers` is pure Python and runs once per region, so most of the cost
of plain Presidio is here. Three things reduce it. A prefilter skips texts in which no number can
stand: a number without `+` has at least as many digits as the shortest number of the policy's
regions, with at most four punctuation characters between two digits (the library's own candidate
pattern). After it, `atdp.governance.detect.phone_prefilter` keeps the library from parsing
candidates that cannot be numbers. And a match is not parsed a second time, as Presidio does.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import phonenumbers
from phonenumbers import PhoneMetadata, PhoneNumberMatcher
from phonenumbers.phonenumberutil import _PLUS_CHARS, _VALID_PUNCTUATION

from atdp.governance.cpu_budget import check_budget
from atdp.governance.detect.detector import DetectedSpan
from atdp.governance.detect.phone_prefilter import possible_number_test
from atdp.governance.detect.presidio import without_duplicates
from atdp.governance.errors import DetectorError, PolicyError

ENTITY: Final = "PHONE_NUMBER"
_SCORE: Final = 0.4
"""Presidio's `PhoneRecognizer.SCORE`."""
_CONTEXT = frozenset(
    {"phone", "telephone", "tel", "cell", "cellphone", "mobile", "call", "text", "sms", "whatsapp",
     "fax", "reach", "contact", "callback"}
)  # fmt: skip
"""Presidio's context words and more, without its "number": with that word, order and item numbers
would count as phone numbers."""
_ABROAD_DIGITS: Final = 8
"""Digits of the shortest call to another country: an international prefix of two digits, then at
least six for country code and number."""
_LIBRARY_MAX_TRIES: Final = 65_535
"""The library's default limit of candidates per text."""
_LENIENCY_VALID: Final = 1
_ARITHMETIC: Final = re.compile(r"\d\.\d{2} ?[-/] ?\(?\d{1,6}\.\d{2}$")
"""A difference of two amounts, as a tool that calculates gets it: 544.29 - 471.82. The library
takes some for numbers; here, unlike in Presidio, they are none."""


class PhoneDetector:
    """Phone numbers that are valid in one of `regions` (ISO 3166-1 alpha-2).

    A number that is written with `+` may be valid in any region.
    """

    entity: str | None = ENTITY
    context = _CONTEXT
    best_score = _SCORE

    def __init__(self, regions: Sequence[str], *, prefiltered: bool = True) -> None:
        """`prefiltered=False` searches every text, as a reference for tests."""
        unknown = sorted(set(regions) - phonenumbers.SUPPORTED_REGIONS)
        if unknown or not regions:
            raise PolicyError(
                f"phone regions {unknown or '[]'}: "
                "use ISO 3166-1 codes that phonenumbers knows, such as US or GB"
            )
        self._regions = tuple(regions)
        self._prefilter: re.Pattern[str] | None = None
        if prefiltered:
            self._prefilter = _candidate(min(_ABROAD_DIGITS, *map(_shortest_number, regions)))

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return every match of `PhoneNumberMatcher` at leniency VALID."""
        if (
            self._prefilter is not None
            and not any(plus in text for plus in _PLUS_CHARS)
            and not self._prefilter.search(text)
        ):
            return ()
        spans = []
        for region in self._regions:
            # The library's default limit of candidates would end the search in a long text without
            # an error.
            matcher = _Matcher(
                text,
                region,
                leniency=_LENIENCY_VALID,
                max_tries=max(_LIBRARY_MAX_TRIES, len(text)),
            )
            if self._prefilter is not None:
                matcher.may_be_number = possible_number_test(region)
            try:
                spans += [
                    DetectedSpan(match.start, match.end, ENTITY, _SCORE, "phonenumbers")
                    for match in matcher
                    if _ARITHMETIC.search(match.raw_string) is None
                ]
            except (ValueError, KeyError, RecursionError, UnicodeError) as error:
                raise DetectorError(
                    f"phonenumbers failed for region {region}: {type(error).__name__}"
                ) from error
        return without_duplicates(spans)


class _Matcher(PhoneNumberMatcher):
    """The library's search, limited to possible numbers and to the record's CPU time.

    It overrides two private methods of the library. The tests that compare the results with
    Presidio's fail when these methods change.
    """

    may_be_number: Callable[[str], bool] | None = None

    def _extract_match(self, candidate: str, offset: int) -> Any:
        check_budget()
        return super()._extract_match(candidate, offset)

    def _parse_and_verify(self, candidate: str, offset: int) -> Any:
        if self.may_be_number is not None and not self.may_be_number(candidate):
            return None
        return super()._parse_and_verify(candidate, offset)


@functools.cache
def _candidate(digits: int) -> re.Pattern[str]:
    return re.compile(rf"\d(?:[{_VALID_PUNCTUATION}]{{0,4}}\d){{{digits - 1}}}")


def _shortest_number(region: str) -> int:
    metadata: Any = PhoneMetadata.metadata_for_region(region)
    lengths = metadata.general_desc.possible_length
    if metadata.national_prefix_transform_rule is not None:
        # Parsing adds the area code to a local number (in Jersey 6 digits become 10).
        lengths = (*lengths, *metadata.general_desc.possible_length_local_only)
    return int(min(lengths))
