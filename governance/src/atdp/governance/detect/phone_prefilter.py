"""Which strings of digits can be a phone number at all, asked before `phonenumbers` parses them.

`PhoneNumberMatcher` tries every run of digits, every part of it that stands between spaces or
hyphens, once per region; in a table of numbers nearly all of its time goes into parsing what can be
no number. For a candidate of digits and plain punctuation the outcome of parsing and validating
depends on the digits alone, and a valid one must, after the prefixes that parsing can take off,
match one of the number patterns of its country. That is tested here in microseconds: a necessary
condition, so it lets too much through and hides nothing. A test compares findings with and without
it, for every region.

What parsing can take off (phonenumberutil.parse): an international prefix (then any country may
follow: always possible), the region's country code, a national prefix, once before and once after
the country code is settled.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

_REMEMBERED = 20_000
_PLAIN = re.compile(r"[0-9 ()\[\].\-/]*")
_NOT_DIGITS = re.compile(r"[^0-9]+")
_KINDS = (
    "fixed_line",
    "mobile",
    "toll_free",
    "premium_rate",
    "shared_cost",
    "personal_number",
    "voip",
    "pager",
    "uan",
    "voicemail",
)


@functools.cache
def may_be_dialled(region: str) -> Callable[[str], bool]:
    """For a region (ISO 3166-1 alpha-2): whether a candidate may be a valid number there.

    One with letters, `+` or an extension may.
    """
    own: Any = PhoneMetadata.metadata_for_region(region)
    siblings: list[Any] = [
        PhoneMetadata.metadata_for_region(each)
        for each in COUNTRY_CODE_TO_REGION_CODE[own.country_code]
    ]
    code = str(own.country_code)
    abroad = re.compile(own.international_prefix) if own.international_prefix else None
    # A number with the country code is parsed by the rules of the country's main region.
    prefixes = [
        (
            re.compile(each.national_prefix_for_parsing),
            each.national_prefix_transform_rule is not None,
        )
        for each in {id(each): each for each in (own, siblings[0])}.values()
        if each.national_prefix_for_parsing
    ]
    lengths = frozenset(length for each in siblings for length in each.general_desc.possible_length)
    valid = re.compile(
        "|".join(
            f"(?:{pattern})"
            for pattern in dict.fromkeys(
                kind.national_number_pattern
                for each in siblings
                for kind in (getattr(each, name) for name in _KINDS)
                if kind is not None and kind.national_number_pattern
            )
        )
    )

    @functools.lru_cache(maxsize=_REMEMBERED)
    def digits_may(digits: str) -> bool:
        if abroad is not None and abroad.match(digits):
            return True
        found = {digits}
        if digits.startswith(code):
            found.add(digits[len(code) :])
        for _ in range(2):
            for number in tuple(found):
                for prefix, transforms in prefixes:
                    taken = prefix.match(number)
                    if taken is not None and transforms:
                        return True
                    if taken is not None:
                        found.add(number[taken.end() :])
        return any(len(number) in lengths and valid.fullmatch(number) for number in found)

    def may(candidate: str) -> bool:
        return _PLAIN.fullmatch(candidate) is None or digits_may(_NOT_DIGITS.sub("", candidate))

    return may
