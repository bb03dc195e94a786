"""Surrogates of telephone numbers.

They keep punctuation, country code and trunk zero. The ranges are not assigned to anybody: area
codes N9X, which the North American Numbering Plan keeps for its own expansion (about 2**29 numbers;
555-0100 to 555-0199 would be 2**16), and elsewhere national numbers that begin with two zeros,
which hardly any numbering plan has.

No form tells these numbers from those of all countries, so they are not recognised as surrogates.
The national number alone is the key, so `(212) 456-7890` and `+1 212-456-7890` agree. The last four
digits are replaced by themselves, so that they agree with the last four digits alone.
"""

import re
from typing import Final

from atdp.governance.redact.structure_words import ID_WORDS, PHONE_WORDS
from atdp.governance.redact.surrogate_codes import digits_of, in_places_of, same_shape
from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogate_text import rewritten_around

_NANP_DIGITS: Final = 10
_NANP_LOCAL_DIGITS: Final = 7
_LINE_DIGITS: Final = 4
_LEAST_DIGITS: Final = 7
_AREAS: Final = 80
_EXCHANGES: Final = 800

_NUMBER = re.compile(r"[+(]*[0-9](?:[\s0-9().+/*-]*[0-9])?")
_INTERNATIONAL = re.compile(r"\s*(?:\+|00(?=[1-9])|011(?=[\s.-]?[1-9]))")
_CALLING_CODE = re.compile(
    r"1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[1-9][0-9]{2}"
)
"""Country codes of ITU-T E.164: one, two or three digits, none of them the start of another."""


def phone(key: SurrogateKey, value: str) -> str:
    """Return a number of an unassigned range in the spelling of `value`."""
    return rewritten_around(
        key, _NUMBER, lambda match: _other_number(key, match[0]), value, PHONE_WORDS | ID_WORDS
    )


def _other_number(key: SurrogateKey, number: str) -> str:
    prefix, national, abroad = _dialled(number)
    return in_places_of(number, prefix + _other_national(key, national, abroad=abroad))


def _dialled(number: str) -> tuple[str, str, bool]:
    """Return the digits that stay, the national number, and whether it is outside the NANP."""
    digits = digits_of(number)
    start = _INTERNATIONAL.match(number)
    if start:
        exit_digits = len(digits_of(start[0]))
        match = _CALLING_CODE.match(digits, exit_digits)
        country = match[0] if match else ""
        end = exit_digits + len(country)
    else:
        end = 1 if len(digits) == _NANP_DIGITS + 1 and digits[0] == "1" else 0
        country = "1" if len(digits) - end == _NANP_DIGITS and digits[0] != "0" else ""
    if country == "1":
        return digits[:end], digits[end:], False
    trunk_end = len(digits) - len(digits[end:].lstrip("0"))
    # Digits without a country code or a trunk zero are of no known numbering plan.
    return digits[:trunk_end], digits[trunk_end:], bool(country) or trunk_end > end


def _other_national(key: SurrogateKey, national: str, *, abroad: bool) -> str:
    size = len(national)
    if size < _LEAST_DIGITS:
        return same_shape(key, national)
    line = same_shape(key, national[-_LINE_DIGITS:])
    if abroad:
        free = size - _LINE_DIGITS - 2
        return f"00{key.number('phone', national, 10**free):0{free}d}{line}"
    if size == _NANP_DIGITS:
        area, exchange = divmod(key.number("phone", national, _AREAS * _EXCHANGES), _EXCHANGES)
        first, last = divmod(area, 10)
        return f"{first + 2}9{last}{exchange + 200}{line}"
    if size == _NANP_LOCAL_DIGITS and national[0] != "0":
        # No exchange of the NANP begins with 1.
        return f"1{key.number('phone', national, 100):02d}{line}"
    return same_shape(key, national)
