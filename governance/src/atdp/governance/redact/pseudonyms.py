"""A tenant's key, and keyed pseudonyms: one value always gets the same name.

The form is `<EMAIL_ADDRESS_1a2b3c4d5e6fa7b8c>`: the entity and 17 hex digits of HMAC-SHA256 under
the tenant's key over (scope, entity, normalised value). A hash without a key would not suffice,
because e-mail addresses, postal codes and card numbers can be enumerated. The digits
are 66 bits (not 68, see below). A collision would merge two people under one name; it reveals no
value. Pseudonyms with 10 digits are from earlier versions and are recognised as well.

A pseudonym never contains four decimal digits in a row (the HMAC is repeated with a counter until
it does not). So no recognizer finds a number in it, and nobody can hide a postal code or a card
number in a text of this form, which all rules leave alone.
"""

import hmac
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogates import surrogate

PSEUDONYM: Final = (
    r"<[A-Z][A-Z0-9_]{0,62}_(?![0-9a-f]*[0-9]{4})[0-9a-f]{10}(?:[0-9a-f]{7}|[0-9a-f]{10})?>"
)
"""Pattern of a pseudonym (17 digits, 10 in earlier versions) or keyed hash (20 digits)."""

_IS_PSEUDONYM = re.compile(PSEUDONYM)
_FOUR_DIGITS = re.compile(r"[0-9]{4}")
_LETTERS = re.compile(r"[^\W\d_]")
_NOT_DIGITS = re.compile(r"\D+")
_SPACES = re.compile(r"\s+")

PSEUDONYM_DIGITS: Final = 17
HASH_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class TenantKey:
    """The 32 secret bytes from which one tenant's pseudonyms and surrogates are computed.

    Without the key neither can be linked to its value again.
    """

    secret: bytes = field(repr=False)

    def pseudonym(
        self, entity: str, value: str, *, scope: str = "", digits: int = PSEUDONYM_DIGITS
    ) -> str:
        """Return the pseudonym of `value`; it differs from one `scope` to another."""
        message = "\x1f".join((scope, entity, normalised(value))).encode("utf-8", "surrogatepass")
        counter = 0
        while True:
            mac = hmac.digest(self.secret, b"%d\x1f" % counter + message, "sha256").hex()[:digits]
            if _FOUR_DIGITS.search(mac) is None:
                return f"<{entity}_{mac}>"
            counter += 1

    def surrogate(self, entity: str, value: str, *, scope: str = "") -> str:
        """Return the surrogate of `value`; it differs from one `scope` to another."""
        return surrogate(SurrogateKey(self.secret, scope), entity, value)


def normalised(value: str) -> str:
    """Return the form that all spellings of one value share.

    Case, character width and spacing are ignored, and in numbers the punctuation.
    """
    text = unicodedata.normalize("NFKC", value).casefold().strip()
    if _LETTERS.search(text) is None:
        return _NOT_DIGITS.sub("", text) or text
    return _SPACES.sub(" ", text)


def is_pseudonym(text: str) -> bool:
    """Return True when the whole of `text` is a pseudonym or keyed hash."""
    return _IS_PSEUDONYM.fullmatch(text) is not None
