r"""Characters that act on what shows a text, and their escapes.

Control characters (C0 and C1) steer a terminal: they set its title, overwrite lines, hide text.
Bidirectional controls and line separators change the order and the lines in which a text is read.
No id and no name has one, and every table, log and page shows them as `\uXXXX`. JSON has the same
escape, so escaped JSON text is JSON of the same value. Halves of surrogate pairs, which no output
can encode, are treated alike.
"""

import re
from typing import Final

_ACTING: Final = r"\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(rf"[\x00-\x1f{_ACTING}]")
_UNSHOWN = re.compile(rf"[\x00-\x08\x0b-\x1f{_ACTING}]")
"""Line feeds and tabs are shown, because they lay out texts."""


def has_control_characters(text: str) -> bool:
    """Return whether a text has a control, a bidirectional control or a line separator."""
    # isprintable is fast; it also refuses some characters that act on nothing, such as U+3000.
    return not text.isprintable() and _CONTROL.search(text) is not None


def escape_control_characters(text: str) -> str:
    r"""Return the text with `\uXXXX` for each such character except line feeds and tabs."""
    return text if text.isprintable() else _UNSHOWN.sub(_escape, text)


def escape_name(text: str) -> str:
    r"""Return a name with `\uXXXX` for each such character; what is returned can be a name."""
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def escape_shown_value(value: object) -> object:
    """Return a value for a page: text escaped, everything else, markup included, as it is."""
    return escape_control_characters(value) if type(value) is str else value


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
