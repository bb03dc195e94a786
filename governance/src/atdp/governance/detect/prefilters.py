"""Prefilters: cheap tests that every text passes in which a recognizer detects something.

Each prefilter is a *relaxation* of its recognizer's patterns (a prefix, a wider character class,
look-arounds left out), compiled by the same engine with the same flags. So it can only let too much
through. A prefilter that is too strict would hide values; tests compare the results with and
without prefilters on a corpus and on generated text.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import regex

Prefilter: TypeAlias = Callable[[str], bool]
"""Returns False only for texts in which the recognizer cannot detect anything."""

_FLAGS: Final = regex.DOTALL | regex.MULTILINE | regex.IGNORECASE


def _contains(pattern: str, flags: int = _FLAGS) -> Prefilter:
    search = regex.compile(pattern, flags).search
    return lambda text: search(text) is not None


def _has_at_sign(text: str) -> bool:
    return "@" in text


_has_ip_address_start = _contains(r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|(?:[0-9A-Fa-f]{1,4}:){7}")


def _may_hold_ip_address(text: str) -> bool:
    return "::" in text or _has_ip_address_start(text)


PREFILTERS: Mapping[str, Prefilter] = {
    "EMAIL_ADDRESS": _has_at_sign,
    # At least 4+3+3+3 digits, with at most one separator between groups.
    "CREDIT_CARD": _contains(r"\d(?:[- ]?\d){12}"),
    "IBAN_CODE": _contains(r"[A-Z]{2}[0-9]{2}[ -]?[A-Z0-9]{4}", regex.DOTALL | regex.MULTILINE),
    # One prefix character and 25 more.
    "CRYPTO": _contains(r"[a-zA-Z0-9]{26}"),
    "IP_ADDRESS": _may_hold_ip_address,
    # The groupings 5-4, 3-6, 3-2-4 and 9 digits are all 3+2+4 with separators left out.
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
"""Prefilters by entity."""
