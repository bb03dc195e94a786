"""Necessary conditions: cheap tests that every text with a finding passes.

Each gate is a *relaxation* of its recognizer's patterns (a prefix, a wider character class,
look-arounds left out), compiled by the same engine with the same flags, so that it can only let too
much through. A gate that is too strict would be a leak; tests compare gated and ungated findings on
a corpus and on generated text.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import regex

Gate: TypeAlias = Callable[[str], bool]

_FLAGS = regex.DOTALL | regex.MULTILINE | regex.IGNORECASE


def _contains(pattern: str, flags: int = _FLAGS) -> Gate:
    search = regex.compile(pattern, flags).search
    return lambda text: search(text) is not None


def _at_sign(text: str) -> bool:
    return "@" in text


_ip_like = _contains(r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|(?:[0-9A-Fa-f]{1,4}:){7}")


def _address_like(text: str) -> bool:
    return "::" in text or _ip_like(text)


GATES: Mapping[str, Gate] = {
    "EMAIL_ADDRESS": _at_sign,
    # 4+3+3+3 digits at least, one separator at most between groups.
    "CREDIT_CARD": _contains(r"\d(?:[- ]?\d){12}"),
    "IBAN_CODE": _contains(r"[A-Z]{2}[0-9]{2}[ -]?[A-Z0-9]{4}", regex.DOTALL | regex.MULTILINE),
    # One prefix character and 25 more.
    "CRYPTO": _contains(r"[a-zA-Z0-9]{26}"),
    "IP_ADDRESS": _address_like,
    # 5-4, 3-6, 3-2-4 and 9 digits are all 3+2+4 with separators left out.
    "US_SSN": _contains(r"[0-9]{3}[- .]?[0-9]{2}[- .]?[0-9]{4}"),
    "US_ITIN": _contains(r"9\d{2}[- ]?\d{2}[- ]?\d{4}"),
    "US_PASSPORT": _contains(r"[0-9]{8}"),
    "US_BANK_NUMBER": _contains(r"[0-9]{8}"),
    "US_DRIVER_LICENSE": _contains(r"[0-9]"),
    "UK_NINO": _contains(r"[0-9]{2} ?[0-9]{2} ?[0-9]{2}"),
    "UK_NHS": _contains(r"[0-9]{3}[- ]?[0-9]{3}[- ]?[0-9]{4}"),
    "MEDICAL_LICENSE": _contains(r"\d{7}"),
    "MAC_ADDRESS": _contains(
        r"[0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-]|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\."
    ),
}
