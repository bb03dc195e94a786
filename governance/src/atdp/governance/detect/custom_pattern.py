"""Patterns that a policy defines.

They run on the `regex` engine with a time limit per string. A pattern that exceeds it raises an
error; its text is never skipped. When a policy is compiled, each pattern is tried on short
repetitive texts, and one that is slow on them is refused, so that it does not quarantine real
events later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import regex

from atdp.governance.detect.detector import DetectedSpan
from atdp.governance.errors import DetectorError, PolicyError
from atdp.governance.redact.pseudonyms import is_pseudonym

_PROBE_TIMEOUT_S: Final = 1.0
_PROBE_CHARS: Final = 6_000
_PROBE_PIECES: Final = (
    "a",
    "A",
    "1",
    " ",
    "-",
    ".",
    "_",
    "1 ",
    "a ",
    "A ",
    "Aa ",
    "1-",
    "a_",
    "a.",
    "1 Aa ",
    "aA1_-. ",
)
_PROBES = tuple(
    piece * (_PROBE_CHARS // len(piece)) + end for piece in _PROBE_PIECES for end in ("", "!")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternDefinition:
    """One pattern of a policy.

    `group` (number or name, 0 is the whole match) is what is detected. `flags` are those of
    `regex.compile`.
    """

    name: str
    entity: str
    pattern: str
    group: int | str
    flags: int
    score: float
    context: frozenset[str]


class CustomPattern:
    """The detector of one pattern of a policy.

    Raises:
        PolicyError: the pattern does not compile, has no such group, matches the empty text, or is
            slow on repetitive text.
    """

    def __init__(self, definition: PatternDefinition, timeout_s: float) -> None:
        self.context = definition.context
        self.best_score = definition.score
        self.entity: str | None = definition.entity
        self._definition = definition
        self._pattern = _compiled(definition)
        self._timeout_s = timeout_s
        self._refuse_slow_pattern()

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return every match of the pattern that is not a pseudonym already."""
        return self._scan(text, self._timeout_s)

    def _scan(self, text: str, timeout_s: float) -> Sequence[DetectedSpan]:
        definition = self._definition
        rule = f"policy:{definition.name}"
        spans = []
        try:
            for match in self._pattern.finditer(text, timeout=timeout_s):
                start, end = match.span(definition.group)
                if end > start and not is_pseudonym(text[start:end]):
                    spans.append(
                        DetectedSpan(start, end, definition.entity, definition.score, rule)
                    )
        except TimeoutError as error:
            raise DetectorError(
                f"pattern {definition.name} ran longer than {timeout_s} s on one string"
            ) from error
        return spans

    def _refuse_slow_pattern(self) -> None:
        for probe in _PROBES:
            try:
                self._scan(probe, _PROBE_TIMEOUT_S)
            except DetectorError as error:
                raise PolicyError(
                    f"pattern {self._definition.name!r} takes too long on repetitive text; "
                    "bound its repetitions ({1,40} instead of +)"
                ) from error


def _compiled(definition: PatternDefinition) -> regex.Pattern[str]:
    name, group = definition.name, definition.group
    try:
        pattern = regex.compile(definition.pattern, definition.flags)
    except regex.error as error:
        raise PolicyError(f"pattern {name!r} does not compile: {error}") from error
    if isinstance(group, int) and group > pattern.groups:
        raise PolicyError(f"pattern {name!r} has no group {group}; it has {pattern.groups}")
    if isinstance(group, str) and group not in pattern.groupindex:
        raise PolicyError(f"pattern {name!r} has no group {group!r}")
    if pattern.search("") is not None:
        raise PolicyError(
            f"pattern {name!r} matches the empty text; make it match at least one character"
        )
    return pattern
