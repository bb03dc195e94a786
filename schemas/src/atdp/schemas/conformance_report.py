"""The verdict of each rule of the contract, for a producer or for a receiver."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from atdp.schemas.contract_check import BODY_RULE, ENCODING_RULE
from atdp.schemas.rule_catalogue import contract_rules
from atdp.schemas.sequence_rules import SEQUENCE_RULES

REPEAT_RULE = "Delivery.repeat"
"""Id of the rule that a receiver answers a copy of an event as it answered the event."""
_MAX_PLACES = 100


@dataclass(slots=True)
class RuleVerdict:
    """One rule with the number of times that it was kept and broken."""

    rule_id: str
    sentence: str
    passed: int = 0
    failed: int = 0
    places: list[str] = field(default_factory=list)
    """The first places where the rule was broken; they hold no values of events."""

    @property
    def verdict(self) -> Literal["passed", "failed", "not seen"]:
        """The verdict; a rule is `not seen` when nothing was held against it."""
        if self.failed:
            return "failed"
        return "passed" if self.passed else "not seen"


class ConformanceReport:
    """The verdicts of all rules."""

    def __init__(self) -> None:
        """Begin with no rule seen."""
        sentences = {
            ENCODING_RULE: "The event fits the schema.",
            BODY_RULE: "An event has exactly the body that its kind names.",
            **{rule.id: rule.sentence for rule in contract_rules()},
            **{rule.id: rule.sentence for rule in SEQUENCE_RULES},
            REPEAT_RULE: "A copy of an event is answered as the event was.",
        }
        self._verdicts = {
            rule_id: RuleVerdict(rule_id, sentence) for rule_id, sentence in sentences.items()
        }
        self.items = 0
        """Number of events or vectors that were held against the rules."""

    def __iter__(self) -> Iterator[RuleVerdict]:
        """Iterate over the verdicts of all rules, in one order."""
        return iter(self._verdicts.values())

    @property
    def conforms(self) -> bool:
        """Return True when no rule was broken."""
        return not any(verdict.failed for verdict in self)

    def count(self, rule_id: str, kept: bool, place: str) -> None:
        """Count one judgement; `place` names the line and field, or the vector."""
        verdict = self._verdicts[rule_id]
        if kept:
            verdict.passed += 1
            return
        verdict.failed += 1
        if len(verdict.places) < _MAX_PLACES:
            verdict.places.append(place)
