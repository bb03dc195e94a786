"""The four verdicts of every evaluation, and what they mean to a shell.

A verdict answers one question: *may this version go on?* Only PASS opens a gate. INCONCLUSIVE means
that the data cannot tell (too thin, too little covered); ERROR that the question was not answered
at all.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of a gate."""

    PASS = "PASS"  # noqa: S105 (a verdict, not a password)
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 inconclusive, 3 error."""
        return {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2, "ERROR": 3}[self.value]


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a verdict is what it is: `code` for machines (stable), `text` for people."""

    code: str
    text: str
