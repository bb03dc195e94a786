"""Lengths of time as options of the command line: `90m`, `12h`, `7d`."""

from typing import Final

import typer

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_S: Final = 100 * 366 * 86_400
"""Longest time, 100 years. A much longer one ends at no time that Python or SQLite can hold."""


def seconds_of(text: str, option: str) -> int:
    """Return the seconds of a length of time that was given as `option`.

    Raises:
        typer.BadParameter: the text is none.
    """
    number, unit = text.strip()[:-1], text.strip()[-1:]
    if unit not in _UNITS_S or not number.isdecimal():
        raise typer.BadParameter(
            f"{text!r} is not a length of time such as 90m, 12h or 7d", param_hint=option
        )
    # Without the first comparison, a number of thousands of digits is an error of its own.
    if len(number) > len(str(MOST_S)) or int(number) * _UNITS_S[unit] > MOST_S:
        raise typer.BadParameter("it may be 100 years at most", param_hint=option)
    return int(number) * _UNITS_S[unit]
