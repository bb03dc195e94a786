"""Patterns that a policy defines.

They run on the `regex` engine with a time limit per string: running out of it is an error, never a
skip. A pattern that runs away on short hostile texts is refused when the policy is compiled, before
it can quarantine real events.
"""

from collections.abc import Sequence

import regex

from atdp.governance.detect.finding import Finding
from atdp.governance.errors import DetectorError, PolicyError
from atdp.governance.redact.pseudonyms import is_token

_PROBE_TIMEOUT_S = 1.0
_PROBES = tuple(
    piece * (6_000 // len(piece)) + end
    for piece in (
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
    for end in ("", "!")
)


class CustomPattern:
    """One pattern of a policy: `group` (0 = the whole match) is the finding.

    Raises:
        PolicyError: the pattern does not compile, has no such group, can match nothing at all, or
            runs away.
    """

    def __init__(
        self,
        *,
        name: str,
        entity: str,
        pattern: str,
        group: int | str,
        flags: int,
        score: float,
        context: frozenset[str],
        timeout_s: float,
    ) -> None:
        try:
            self._pattern = regex.compile(pattern, flags)
        except regex.error as error:
            raise PolicyError(f"pattern {name!r} does not compile: {error}") from error
        if isinstance(group, int) and group > self._pattern.groups:
            raise PolicyError(
                f"pattern {name!r} has no group {group}; it has {self._pattern.groups}"
            )
        if isinstance(group, str) and group not in self._pattern.groupindex:
            raise PolicyError(f"pattern {name!r} has no group {group!r}")
        if self._pattern.search("") is not None:
            raise PolicyError(
                f"pattern {name!r} matches the empty text; make it match at least one character"
            )
        self.context = context
        self.best_score = score
        self.entity: str | None = entity
        self._found_entity = entity
        self._name = name
        self._group = group
        self._score = score
        self._timeout_s = timeout_s
        self._refuse_runaway()

    def scan(self, text: str) -> Sequence[Finding]:
        """Every match of the pattern that is not a pseudonym already."""
        return self._find(text, self._timeout_s)

    def _find(self, text: str, timeout_s: float) -> Sequence[Finding]:
        found = []
        try:
            for match in self._pattern.finditer(text, timeout=timeout_s):
                start, end = match.span(self._group)
                if end > start and not is_token(text[start:end]):
                    found.append(
                        Finding(start, end, self._found_entity, self._score, f"policy:{self._name}")
                    )
        except TimeoutError as error:
            raise DetectorError(
                f"pattern {self._name} ran longer than {timeout_s} s on one string"
            ) from error
        return found

    def _refuse_runaway(self) -> None:
        for probe in _PROBES:
            try:
                self._find(probe, _PROBE_TIMEOUT_S)
            except DetectorError as error:
                raise PolicyError(
                    f"pattern {self._name!r} runs away on repetitive text; bound its repetitions ({{1,40}} instead of +)"
                ) from error
