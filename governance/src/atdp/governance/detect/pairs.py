"""Keys with their values inside text that is not JSON: `"zip": "19122"` in cut-off JSON, Python dictionaries, logs, server-sent events.

The same key rules as for decoded JSON, by normalised key name. A value ends where its own quote
ends it: an apostrophe within double quotes does not, nor does a quote behind a backslash; a value
whose quote never comes (the text was cut) ends with its line. JSON inside a string of JSON that was
cut has its quotes behind one backslash, and theirs within behind three: every level of strings
escapes each backslash and each quote of the level within.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import regex

from atdp.governance.detect.finding import Finding
from atdp.governance.errors import DetectorError
from atdp.governance.redact.pseudonyms import is_token

Place: TypeAlias = tuple[int, int, int]
"""Start and end (exclusive) of a value without its quotes, and where the text goes on."""

_KEY = regex.compile(
    r"""\\*(?P<open>["'])(?P<key>[^\W\d_][\w .-]{0,39})\\*(?P=open)\s{0,4}:\s{0,4}(?P<list>\[\s{0,40})?"""
)
_OPENING = regex.compile(r"""(?P<escapes>\\*)(?P<quote>["'])""")
_NUMBER = regex.compile(r"-?[0-9][0-9.]{1,30}(?:[eE][+-]?[0-9]{1,3})?")
_COMMA = regex.compile(r"\s{0,40},\s{0,40}")
_STOP = regex.compile(r"""(?P<escapes>\\*)(?P<quote>["'])|[\r\n]""")


class QuotedPairs:
    """The values of all keys that have a rule (normalised key name → entity)."""

    entity: str | None = None
    context: frozenset[str] = frozenset()
    best_score = 1.0

    def __init__(self, rules: Mapping[str, str], timeout_s: float) -> None:
        self._rules = rules
        self._timeout_s = timeout_s

    def scan(self, text: str) -> Sequence[Finding]:
        """One finding per value; the values of a list each."""
        if ":" not in text or ('"' not in text and "'" not in text):
            return ()
        found = []
        behind = 0
        try:
            for match in _KEY.finditer(text, timeout=self._timeout_s):
                entity = self._rules.get(key_name(match["key"]))
                # What looks like a key within a value is part of it.
                if entity is None or match.start() < behind:
                    continue
                for start, end, behind in _values(
                    text, match.end(), listed=match["list"] is not None
                ):  # noqa: B007 - kept for the next match
                    if text[start:end].strip() and not is_token(text[start:end]):
                        found.append(Finding(start, end, entity, 1.0, "key-in-text"))
        except TimeoutError as error:
            raise DetectorError(
                f"the search for keys in text ran longer than {self._timeout_s} s"
            ) from error
        return found


def key_name(key: str) -> str:
    """A key without case and punctuation: `zipCode`, `zip_code` and `ZIP-Code` are one name."""
    return "".join(character for character in key.lower() if character.isalnum())


def _values(text: str, at: int, *, listed: bool) -> Iterator[Place]:
    while (place := _value(text, at)) is not None:
        yield place
        following = _COMMA.match(text, place[2]) if listed else None
        if following is None:
            return
        at = following.end()


def _value(text: str, at: int) -> Place | None:
    opening = _OPENING.match(text, at)
    if opening is None:
        number = _NUMBER.match(text, at)
        return None if number is None else (number.start(), number.end(), number.end())
    level = len(opening["escapes"]).bit_length()
    start = opening.end()
    for stop in _STOP.finditer(text, start):
        if stop["quote"] is None:
            return start, stop.start(), stop.start()
        if stop["quote"] == opening["quote"]:
            escapes = len(stop["escapes"])
            if _closes(escapes, level):
                # The quote's own backslashes are not of the value; those before it are.
                return start, stop.end() - 1 - min(escapes, len(opening["escapes"])), stop.end()
    return start, len(text), len(text)


def _closes(escapes: int, level: int) -> bool:
    """Whether a quote behind so many backslashes ends a string that is `level` strings deep."""
    for _ in range(level):
        if escapes % 2 == 0:
            return True  # it ends one of the strings around it
        escapes //= 2
    return escapes % 2 == 0
