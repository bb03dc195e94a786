"""The four verdicts of an evaluation, and their exit codes.

A verdict says whether a version may proceed. Only PASS opens a release gate. INCONCLUSIVE means
that the data are too thin or too little covered to decide, ERROR that the evaluation did not take
place.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The outcome of a release gate or of a canary's judgement."""

    PASS = "PASS"  # noqa: S105 (a verdict, not a password)
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR."""
        return {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2, "ERROR": 3}[self.value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A reason for a verdict: `code` for programs (stable), `text` for people."""

    code: str
    text: str
