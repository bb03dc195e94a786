"""Surrogates of dates: days of the 19th century, in the spelling of the original.

Each day is permuted among the 36,524 days from 1800-01-01 to 1899-12-31; two days less than 36,524
days apart in the same block of that length never share a surrogate. Where day and month cannot be
told apart (`03/04/1988`), the month is read first. Two digits of a year are read as 1930 to 2029.
"""

import calendar
import re
from datetime import date
from typing import Final

from atdp.governance.redact.structure_words import DATE_WORDS
from atdp.governance.redact.surrogate_codes import same_shape
from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogate_text import has_digits, ordinal, rewritten_around

_FIRST: Final = date(1800, 1, 1).toordinal()
_DAYS: Final = date(1900, 1, 1).toordinal() - _FIRST
_MONTHS_PER_YEAR: Final = 12
_PIVOT: Final = 30
_CENTURY: Final = 100
_YEAR_DIGITS: Final = 4
_MONTHS: Final = [name.lower() for name in calendar.month_name[1:]]
_SHORT: Final = 3
_MONTH: Final = "|".join(rf"{name[:3]}(?:{name[3:]}|\b)" for name in _MONTHS) + "|sept"

_DATE = re.compile(
    rf"""(?<![0-9])(?:
    (?P<y1>[0-9]{{4}})(?P<s1>[-/.])(?P<m1>[0-9]{{1,2}})(?P=s1)(?P<d1>[0-9]{{1,2}})
    |(?P<a2>[0-9]{{1,2}})(?P<s2>[-/.])(?P<b2>[0-9]{{1,2}})(?P=s2)(?P<y2>[0-9]{{4}}|[0-9]{{2}})
    |(?P<y3>(?:19|20)[0-9]{{2}})(?P<m3>0[1-9]|1[0-2])(?P<d3>0[1-9]|[12][0-9]|3[01])
    |(?P<d4>[0-9]{{1,2}}(?:st|nd|rd|th)?)[\s.-]+(?:of\s+)?(?P<m4>{_MONTH})\.?(?:[\s,-]+(?P<y4>[0-9]{{4}}))?
    |\b(?P<m5>{_MONTH})\.?\s+(?P<d5>[0-9]{{1,2}}(?:st|nd|rd|th)?)(?![0-9])(?:[\s,]+(?P<y5>[0-9]{{4}}))?
    |\b(?P<m6>{_MONTH})\.?[\s,]+(?P<y6>[0-9]{{4}})
    |(?P<hh>[01]?[0-9]|2[0-3]):(?P<nn>[0-5][0-9])(?::(?P<ss>[0-5][0-9]))?
    |(?P<y7>(?:19|20)[0-9]{{2}})
    )(?![0-9])""",
    re.VERBOSE | re.IGNORECASE,
)


def calendar_date(key: SurrogateKey, value: str) -> str:
    """Return the text with other dates and times of day."""
    return rewritten_around(key, _DATE, lambda match: _other(key, match), value, DATE_WORDS)


def is_calendar_date(text: str) -> bool:
    """Return True when the text holds dates of the 19th century and no other number or word."""
    if not any(_is_surrogate(match) for match in _DATE.finditer(text)):
        return False
    rest = _DATE.sub(lambda match: " " if match["hh"] or _is_surrogate(match) else match[0], text)
    words = re.findall(r"[^\W\d_]+", rest)
    return not has_digits(rest) and all(word.lower() in DATE_WORDS for word in words)


def _is_surrogate(match: re.Match[str]) -> bool:
    year = _fields(match)[1]
    return year is not None and len(match[year]) == _YEAR_DIGITS and match[year].startswith("18")


def _fields(match: re.Match[str]) -> tuple[bool, str | None, str | None, str | None]:
    """Return whether a month comes as a word, and the group names of year, month and day."""
    if match["a2"]:
        month_first = int(match["a2"]) <= _MONTHS_PER_YEAR
        return False, "y2", "a2" if month_first else "b2", "b2" if month_first else "a2"
    present = {name[0]: name for name, text in match.groupdict().items() if text}
    in_words = "m" in present and not match[present["m"]].isdecimal()
    return in_words, present.get("y"), present.get("m"), present.get("d")


def _other(key: SurrogateKey, match: re.Match[str]) -> str:
    in_words, year, month, day = _fields(match)
    if year is None and month is None:
        return _other_time(key, match)
    try:
        original = date(
            _year(match[year]) if year else 2000,
            _month(match[month]) if month else 1,
            int(match[day].rstrip("stndrh")) if day else 1,
        )
    except ValueError:
        return same_shape(key, match[0])
    block, offset = divmod(original.toordinal(), _DAYS)
    other = date.fromordinal(_FIRST + key.permuted(f"date {block}", offset, _DAYS))
    text = match[0]
    start = match.start()
    written = [
        (name, number)
        for name, number in ((year, other.year), (month, other.month), (day, other.day))
        if name is not None
    ]
    for name, number in sorted(written, key=lambda each: match.start(each[0]), reverse=True):
        old = match[name]
        if not in_words or name == year:
            new = _digits_like(old, number)
        else:
            new = _month_like(old, number) if name == month else _day_like(old, number)
        text = text[: match.start(name) - start] + new + text[match.end(name) - start :]
    return text


def _other_time(key: SurrogateKey, match: re.Match[str]) -> str:
    seconds = key.number("time of day", match[0], 24 * 60 * 60)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = f"{_digits_like(match['hh'], hour)}:{minute:02d}"
    return f"{text}:{second:02d}" if match["ss"] else text


def _year(text: str) -> int:
    year = int(text)
    if len(text) == _YEAR_DIGITS:
        return year
    return year + (1900 if year >= _PIVOT else 2000)


def _month(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return [name[:_SHORT] for name in _MONTHS].index(text.lower()[:_SHORT]) + 1


def _digits_like(old: str, number: int) -> str:
    """Return a number in as many digits as the original had."""
    if len(old) < _YEAR_DIGITS:
        number %= _CENTURY
    return f"{number:0{len(old)}d}"


def _day_like(old: str, number: int) -> str:
    return str(number) if old.isdecimal() else ordinal(str(number))


def _month_like(old: str, number: int) -> str:
    name = _MONTHS[number - 1]
    name = name[:_SHORT] if len(old) <= _SHORT + 1 and old.lower() not in _MONTHS else name
    if old.isupper():
        return name.upper()
    return name if old.islower() else name.capitalize()
