r"""Patterns on the RE2 engine, whose time grows with the length of the text and never explodes.

A steward may write such a pattern without knowing how an engine searches. RE2 has no look-around
and no back-references; `\w`, `\d` and `\b` know ASCII letters and digits only (`\p{L}` is any
letter), and letter case is ignored for all letters.

One search is linear, but finding all matches is a search for each match, and a pattern such as
`a(?:.*b)?` reads the whole rest of the text for every letter that it matches. Therefore each
pattern is tried on long repetitive texts, which are made of its own letters as well, and one that
needs too much CPU time on them is refused. Programs that are too large are refused, too: a class of
letters that is repeated a hundred times has a large one.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any, Final

import re2

from atdp.governance.errors import DetectorError, PolicyError

MOST_INSTRUCTIONS: Final = 100_000
r"""Size of the compiled program: `\p{L}{1,40}` has 48,000 instructions, `[A-Z]{1,900}` 3,000."""
_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""Memory of one pattern for its program and the states that a search has seen."""
_PROBE_CHARS: Final = 20_000
_GROWTH: Final = 4
"""The longer probe has this many times the characters of the shorter one."""
_MOST_GROWTH: Final = 2.0 * _GROWTH
"""A search in linear time takes 4 times as long for the longer probe, a quadratic one 16 times."""
_NOTICEABLE_S: Final = 0.1
"""CPU time on the longer probe below which its growth is not measured."""
_PROBE_S: Final = 1.0
"""CPU time on the longer probe. A pattern that matches every single character takes 0.2 s."""
_TRIALS: Final = 2
"""A probe that a busy machine slowed down gets another try."""
_PIECES: Final = ("a", "A", "1", " ", "-", ".", "a ", "Aa ", "1-", "a.", "1 Aa ", "aA1_-. ", "é")
_MOST_WORDS: Final = 24
_MATCH_BYTES: Final = 60
_LITERALS: Final = re.compile(r"\\.|[A-Za-z0-9]+|[^\sA-Za-z0-9\\]")

_FAST: Final[dict[tuple[str, bool], float]] = {}
"""Patterns that were tried in this process, with the CPU seconds that it took: a policy is compiled
for its linter and its tests."""


class LinearPattern:
    """A pattern in the syntax of RE2.

    Raises:
        PolicyError: it does not compile, is too large, has no such group, or matches the empty
            text. The message does not name the pattern.
    """

    def __init__(self, pattern: str, *, ignore_case: bool, group: int | str) -> None:
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.log_errors = False
        options.max_mem = _MEMORY_BYTES
        try:
            self._pattern: Any = re2.compile(pattern, options)
        except re2.error as error:
            raise PolicyError(f"not a pattern of RE2: {_reason(error)}") from error
        if self._pattern.programsize > MOST_INSTRUCTIONS:
            raise PolicyError(
                f"too large: its program has {self._pattern.programsize} instructions, and "
                f"{MOST_INSTRUCTIONS} are allowed; repeat classes of letters less often"
            )
        if isinstance(group, int) and group > self._pattern.groups:
            raise PolicyError(f"has no group {group}; it has {self._pattern.groups}")
        if isinstance(group, str) and group not in self._pattern.groupindex:
            raise PolicyError(f"has no group {group!r}")
        if self._pattern.search("") is not None:
            raise PolicyError("matches the empty text; make it match at least one character")
        self._source = pattern
        # A match of RE2 gives spans by number alone.
        self._group = self._pattern.groupindex[group] if isinstance(group, str) else group

    def spans(self, text: str, timeout_s: float) -> Iterator[tuple[int, int]]:
        """Yield start and end of the group in every match.

        Raises:
            DetectorError: the search took more than `timeout_s` seconds of CPU time.
        """
        deadline = time.thread_time() + timeout_s
        for match in self._pattern.finditer(text):
            if time.thread_time() > deadline:
                raise DetectorError(f"a pattern needs more than {timeout_s} s on one string")
            yield match.span(self._group)

    def refuse_if_slow(self) -> float:
        """Try the pattern on repetitive texts; return the CPU seconds of the first trial.

        Raises:
            PolicyError: it is slow on one of them.
        """
        tried = self._source, self._pattern.options.case_sensitive
        if tried in _FAST:
            return _FAST[tried]
        started_s = time.thread_time()
        for piece in self._probe_pieces():
            if all(self._is_slow(piece) for _ in range(_TRIALS)):
                raise PolicyError(
                    "takes too long on repetitive text, because it reads far beyond many of its "
                    "matches; bound what it reads ({1,40} instead of + or *)"
                )
        return _FAST.setdefault(tried, time.thread_time() - started_s)

    def _is_slow(self, piece: str) -> bool:
        """Return whether the time on repetitions of a text grows faster than their length."""
        try:
            short = self._seconds(piece, _PROBE_CHARS)
            long = self._seconds(piece, _GROWTH * _PROBE_CHARS)
        except DetectorError:
            return True
        return long > _NOTICEABLE_S and long > _MOST_GROWTH * short

    def _seconds(self, piece: str, characters: int) -> float:
        text = piece * (characters // len(piece))
        started = time.thread_time()
        for _span in self.spans(text, _PROBE_S):
            pass
        return time.thread_time() - started

    def _probe_pieces(self) -> Iterator[str]:
        """Yield the texts that are repeated: common ones, matches, and the pattern's letters."""
        yield from _PIECES
        with contextlib.suppress(re2.error):  # not every pattern has a first and a last match
            # The first and the last match in the order of the alphabet.
            for encoded in self._pattern.possiblematchrange(_MATCH_BYTES):
                if example := encoded.decode("utf-8", "ignore"):
                    yield from (example, f"{example} ")
        own: dict[str, None] = {}
        for literal in _LITERALS.findall(self._source):
            word = literal[-1:] if literal.startswith("\\") else literal
            own |= dict.fromkeys((word[0], word, f"{word} "))
        yield from list(own)[:_MOST_WORDS]


def _reason(error: Exception) -> str:
    """Return the engine's own words, with a hint where people expect the syntax of Perl."""
    reason = error.args[0] if error.args else ""
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    if re.search(r"\(\?<?[=!]", text) or "invalid perl operator" in text:
        return f"{text} (RE2 has no look-around; name the value as a group, and set `group`)"
    return text
