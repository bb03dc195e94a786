"""Keyed pseudonyms: the same value gets the same name, and nobody without the key can go back or guess.

`<EMAIL_ADDRESS_1a2b3c4d5e>`: entity and 10 hex digits of HMAC-SHA256 under the tenant's key over
(scope, entity, normalised value). A plain hash would not do: e-mails, zips and card numbers can be
enumerated. 40 bits: two of a million values of one tenant and entity collide with probability 0.4;
then two people share a name, which blurs and does not leak.

A pseudonym never contains four decimal digits in a row (the HMAC is repeated with a counter until
it does not), so no recognizer finds a number in it, and a text of this shape cannot smuggle a zip
or card number past the rules that leave pseudonyms alone.
"""

import hmac
import re
import unicodedata
from dataclasses import dataclass

TOKEN = r"<[A-Z][A-Z0-9_]{0,62}_(?![0-9a-f]*[0-9]{4})[0-9a-f]{10}(?:[0-9a-f]{10})?>"  # noqa: S105 - a shape, not a secret
"""Pattern of a pseudonym (10 digits) or keyed hash (20 digits)."""

_IS_TOKEN = re.compile(TOKEN)
_FOUR_DIGITS = re.compile(r"[0-9]{4}")
_LETTERS = re.compile(r"[^\W\d_]")
_NOT_DIGITS = re.compile(r"\D+")
_SPACES = re.compile(r"\s+")

PSEUDONYM_DIGITS = 10
HASH_DIGITS = 20


@dataclass(frozen=True, slots=True)
class TenantKey:
    """The secret under which one tenant's values are named; 32 bytes.

    Destroying it unlinks them for ever.
    """

    secret: bytes

    def name(
        self, entity: str, value: str, *, scope: str = "", digits: int = PSEUDONYM_DIGITS
    ) -> str:
        """The pseudonym of `value`; within another `scope` the same value has another one."""
        message = "\x1f".join((scope, entity, normalised(value))).encode("utf-8", "surrogatepass")
        counter = 0
        while True:
            mac = hmac.digest(self.secret, b"%d\x1f" % counter + message, "sha256").hex()[:digits]
            if _FOUR_DIGITS.search(mac) is None:
                return f"<{entity}_{mac}>"
            counter += 1

    def seal(self, purpose: str, value: str) -> str:
        """64 hex digits that stand for `value` under this key."""
        return hmac.digest(self.secret, f"{purpose}\x1f{value}".encode(), "sha256").hex()


def normalised(value: str) -> str:
    """What two spellings of one value have in common: case, width and spacing, and for numbers the punctuation, are ignored."""
    text = unicodedata.normalize("NFKC", value).casefold().strip()
    if _LETTERS.search(text) is None:
        return _NOT_DIGITS.sub("", text) or text
    return _SPACES.sub(" ", text)


def is_token(text: str) -> bool:
    """Whether the whole of `text` is a pseudonym or keyed hash."""
    return _IS_TOKEN.fullmatch(text) is not None
