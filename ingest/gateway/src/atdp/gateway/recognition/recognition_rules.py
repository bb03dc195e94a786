"""The rules by which a call is assigned to a trajectory, with the confidence of each.

The figures are the share of right assignments in `benchmarks/recognition.py` on recorded
conversations, rounded down, and never 1: messages alone prove nothing. Where the benchmark finds no
error in n calls, the figure is the lower end of a 95 % interval (the rule of three: 1 - 3/n),
rounded down. `docs/reference/sessions.md` gives the counts.
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
    "edited": RecognitionRule(relation="continues", confidence=0.9),
    "compacted": RecognitionRule(relation="continues", confidence=0.9),
    "retry": RecognitionRule(relation="retry_of", confidence=0.95),
    "sample": RecognitionRule(relation="sample_of", confidence=0.95),
    "response_id": RecognitionRule(relation="continues", confidence=0.99),
    "tool_argument": RecognitionRule(relation="spawned_by", confidence=0.9),
    "unknown_history": RecognitionRule(relation="starts", confidence=0.5),
}
