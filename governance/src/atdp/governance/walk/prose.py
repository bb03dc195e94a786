"""Tells prose, in which a trained model looks for names, from other text.

Every text that stands by itself counts as prose, a short one too: an answer may be a name alone. A
string under a key of JSON counts when it is a sentence, because short ones there are words of a
catalogue, and key rules decide about names. Long text that is mostly program code does not count.
"""

import re
from typing import Final

_SENTENCE_SPACES: Final = 4
"""Spaces from which on a string under a key counts as a sentence."""
_CODE_CHARS: Final = 400
"""Shortest text that can count as program code."""
_CODE_SHARE: Final = 0.04
"""Share of code characters from which on a long text is program code. Prose has 0.00 to 0.03, most
Python source more than 0.04."""
_CODE: Final = re.compile(r"[_(){}\[\]=<>;]")


def is_prose(text: str, *, named: bool) -> bool:
    """Return True when a trained model should read the text.

    `named`: a key, or the field itself, says what the text is.
    """
    if named and text.count(" ") < _SENTENCE_SPACES:
        return False
    if len(text) < _CODE_CHARS:
        return True
    return len(_CODE.findall(text)) < _CODE_SHARE * len(text)
