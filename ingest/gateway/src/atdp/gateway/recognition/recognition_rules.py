"""The rules by which a call is assigned to a trajectory, with the confidence of each.

The figures are shares of right assignments on recorded conversations (`benchmarks/recognition.py`,
counts in `benchmarks/README.md`), rounded down to two digits. Where the benchmark finds no error in
n calls the figure is the lower end of a 95 % interval (rule of three: 1 - 3/n). Rules that it does
not measure have an estimate: `response_id`, `extends_past_unseen`, `tool_argument` and
`unknown_history`.
"""

from dataclasses import dataclass
from typing import Literal

RuleName = Literal[
    "opening",
    "extends",
    "extends_past_unseen",
    "edited",
    "compacted",
    "retry",
    "sample",
    "response_id",
    "tool_argument",
    "unknown_history",
]
Relation = Literal["starts", "continues", "retry_of", "sample_of", "spawned_by"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecognitionRule:
    """One rule: what it makes of a call, and how sure it is."""

    relation: Relation
    confidence: float


RULES: dict[RuleName, RecognitionRule] = {
    "opening": RecognitionRule(relation="starts", confidence=0.99),
    "extends": RecognitionRule(relation="continues", confidence=0.99),
    "extends_past_unseen": RecognitionRule(relation="continues", confidence=0.9),
    "edited": RecognitionRule(relation="continues", confidence=0.94),
    "compacted": RecognitionRule(relation="continues", confidence=0.99),
    "retry": RecognitionRule(relation="retry_of", confidence=0.99),
    "sample": RecognitionRule(relation="sample_of", confidence=0.98),
    "response_id": RecognitionRule(relation="continues", confidence=0.99),
    "tool_argument": RecognitionRule(relation="spawned_by", confidence=0.9),
    "unknown_history": RecognitionRule(relation="starts", confidence=0.5),
}
