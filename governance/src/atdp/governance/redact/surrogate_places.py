"""Surrogates of streets and postal codes.

Reserved ranges for postal codes: the three-digit prefixes that the United States have never given
out (none with a leading zero), and the letter Q in the first place, which neither Canada nor the
United Kingdom use. A postal code of the United States agrees with the first five digits of its long
form. Codes of other shapes get any other code of their shape.
"""

import re
from typing import Final

from atdp.governance.redact.structure_words import STREET_WORDS, UNIT_WORDS
from atdp.governance.redact.surrogate_codes import same_shape
from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogate_text import is_made_up, rewritten
from atdp.governance.redact.surrogate_words import surrogate_word

_FREE_RANGES: Final = (
    (213, 213), (269, 269), (343, 343), (345, 345), (348, 348), (353, 353), (419, 419), (428, 429),
    (517, 519), (529, 529), (533, 533), (536, 536), (552, 552), (568, 568), (578, 579), (589, 589),
    (621, 621), (632, 632), (642, 643), (659, 659), (663, 663), (682, 682), (694, 699), (702, 702),
    (709, 709), (715, 715), (732, 732), (742, 742), (771, 771), (817, 819), (839, 839), (848, 849),
    (854, 854), (858, 858), (861, 862), (866, 869), (876, 876), (886, 888), (892, 892), (896, 896),
    (899, 899), (909, 909), (929, 929), (987, 987),
)  # fmt: skip
_FREE_PREFIXES: Final = [each for first, last in _FREE_RANGES for each in range(first, last + 1)]
_PER_PREFIX: Final = 100

_ZIP = re.compile(r"(?P<five>[0-9]{5})(?P<between>[\s-]?)(?P<four>[0-9]{4})?")
_LETTERED = re.compile(r"[A-Za-z][A-Za-z0-9]{1,3}[\s-]?[0-9][A-Za-z0-9]{2}")
_IS_LETTERED = re.compile(r"[Qq][A-Za-z0-9]{1,3}[\s-][0-9][A-Za-z0-9]{2}")
_SEGMENT = re.compile(r"[^0-9,;\n]+")
_WORD = re.compile(r"[^\W\d_]+")


def street_address(key: SurrogateKey, value: str) -> str:
    """Return the address word by word; kinds of streets, directions and units stay.

    A street whose words are all of these (`South Street`) loses the first of them.
    """
    named = _SEGMENT.sub(lambda match: _with_a_name(key, match[0]), value)
    return rewritten(key, named, STREET_WORDS | UNIT_WORDS)


def is_street_address(text: str) -> bool:
    """Return True for an address that `street_address` has written."""
    return is_made_up(text, STREET_WORDS | UNIT_WORDS, digits=True)


def postal_code(key: SurrogateKey, value: str) -> str:
    """Return a code of an unassigned range where the country of the shape has one."""
    text = value.strip()
    match = _ZIP.fullmatch(text)
    if match:
        prefix, last = divmod(
            key.number("zip", match["five"], len(_FREE_PREFIXES) * _PER_PREFIX), _PER_PREFIX
        )
        other = f"{_FREE_PREFIXES[prefix]}{last:02d}{match['between']}"
        return value.replace(text, other + same_shape(key, match["four"] or ""))
    if _LETTERED.fullmatch(text):
        first = "Q" if text[0].isupper() else "q"
        return value.replace(text, first + same_shape(key, text)[1:])
    return rewritten(key, value, codes="upper")


def is_postal_code(text: str) -> bool:
    """Return True for a code in two parts that begins with Q.

    In one part it may be a code of Argentina.
    """
    return _IS_LETTERED.fullmatch(text) is not None


def _with_a_name(key: SurrogateKey, segment: str) -> str:
    """Return a part of an address between numbers and commas; its first word is made up if none is.

    A single word of structure says nothing (`Suite`).
    """
    words = [match for match in _WORD.finditer(segment) if match[0].lower() not in UNIT_WORDS]
    if len(words) < 2 or any(word[0].lower() not in STREET_WORDS for word in words):
        return segment
    first = words[0]
    return segment[: first.start()] + surrogate_word(key, first[0]) + segment[first.end() :]
