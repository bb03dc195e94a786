"""Phone numbers: what Presidio's `PhoneRecognizer` finds, with a gate and without its second parse of every match.

The candidate search of `phonenumbers` is pure Python and runs once per region, so most of the cost
of plain Presidio is here. The gate: a number without `+` has at least as many digits as the
shortest number of the policy's regions, with at most four punctuation characters between two digits
(the library's own candidate pattern). Behind the gate, `atdp.governance.detect.phone_prefilter`
keeps the library from parsing what can be no number.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import phonenumbers
from phonenumbers import PhoneMetadata, PhoneNumberMatcher
from phonenumbers.phonenumberutil import _PLUS_CHARS, _VALID_PUNCTUATION

from atdp.governance.budget import check_budget
from atdp.governance.detect.finding import Finding
from atdp.governance.detect.phone_prefilter import may_be_dialled
from atdp.governance.detect.presidio import without_duplicates
from atdp.governance.errors import DetectorError, PolicyError

ENTITY = "PHONE_NUMBER"
_SCORE = 0.4  # PhoneRecognizer.SCORE
_CONTEXT = frozenset(
    {"phone", "telephone", "tel", "cell", "cellphone", "mobile", "call", "text", "sms", "whatsapp",
     "fax", "reach", "contact", "callback"}
)  # fmt: skip
"""Presidio's context words and more, without its "number": order and item numbers would count as
phones."""

# The shortest dialling of another country from inside one: a prefix of two digits, then at least
# country code and number (6 digits).
_ABROAD_DIGITS = 8


class PhoneDetector:
    """Phone numbers that are valid in one of `regions` (ISO 3166-1 alpha-2), or valid anywhere when written with `+`."""

    entity: str | None = ENTITY
    context = _CONTEXT
    best_score = _SCORE

    def __init__(self, regions: Sequence[str], *, gated: bool = True) -> None:
        unknown = sorted(set(regions) - phonenumbers.SUPPORTED_REGIONS)
        if unknown or not regions:
            raise PolicyError(
                f"phone regions {unknown or '[]'}: use ISO 3166-1 codes that phonenumbers knows, such as US or GB"
            )
        self._regions = tuple(regions)
        self._gate = _candidate(min(_ABROAD_DIGITS, *map(_shortest, regions))) if gated else None

    def scan(self, text: str) -> Sequence[Finding]:
        """Every match of `PhoneNumberMatcher` at leniency VALID."""
        if (
            self._gate is not None
            and not any(plus in text for plus in _PLUS_CHARS)
            and not self._gate.search(text)
        ):
            return ()
        found = []
        for region in self._regions:
            # Its default limit of 65,535 tries would end the search silently in a long text.
            matcher = _Matcher(text, region, leniency=1, max_tries=max(65_535, len(text)))
            if self._gate is not None:
                matcher.may = may_be_dialled(region)
            try:
                found += [
                    Finding(match.start, match.end, ENTITY, _SCORE, "phonenumbers")
                    for match in matcher
                ]
            except (ValueError, KeyError, RecursionError, UnicodeError) as error:
                raise DetectorError(
                    f"phonenumbers failed for region {region}: {type(error).__name__}"
                ) from error
        return without_duplicates(found)


class _Matcher(PhoneNumberMatcher):
    """The library's search, which parses only what may be a number, and stops when the record's time is spent.

    Overrides two of its private methods; the tests that compare findings with Presidio's would
    notice when they change.
    """

    may: Callable[[str], bool] | None = None

    def _extract_match(self, candidate: str, offset: int) -> Any:
        check_budget()
        return super()._extract_match(candidate, offset)

    def _parse_and_verify(self, candidate: str, offset: int) -> Any:
        if self.may is not None and not self.may(candidate):
            return None
        return super()._parse_and_verify(candidate, offset)


@functools.cache
def _candidate(digits: int) -> re.Pattern[str]:
    return re.compile(rf"\d(?:[{_VALID_PUNCTUATION}]{{0,4}}\d){{{digits - 1}}}")


def _shortest(region: str) -> int:
    metadata: Any = PhoneMetadata.metadata_for_region(region)
    lengths = metadata.general_desc.possible_length
    if metadata.national_prefix_transform_rule is not None:
        # What is dialled locally gets its area code while it is parsed (in Jersey 6 digits become
        # 10).
        lengths = (*lengths, *metadata.general_desc.possible_length_local_only)
    return int(min(lengths))
