"""Operators: what stands in the place of a finding.

`replace`, `mask`, `hash` and `pseudonym` write other text; `drop_field` removes the whole string;
`drop_event` and `quarantine` decide the event's fate. Text that an operator wrote is left alone by
every rule, so governing twice is governing once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from atdp.governance.errors import EventDropped, Refusal
from atdp.governance.redact.pseudonyms import HASH_DIGITS, TenantKey

OperatorName: TypeAlias = Literal[
    "pseudonym", "hash", "mask", "replace", "drop_field", "drop_event", "quarantine"
]
Scope: TypeAlias = Literal["tenant", "trajectory"]

SEVERITY: Mapping[OperatorName, int] = {
    "pseudonym": 10,
    "hash": 20,
    "mask": 30,
    "replace": 40,
    "drop_field": 50,
    "drop_event": 60,
    "quarantine": 70,
}
"""Which operator wins where findings overlap: the one that leaves less behind."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One entity's operator.

    `scope`: within what the same value keeps the same pseudonym. `keep_last`: characters that a
    mask leaves.
    """

    name: OperatorName
    scope: Scope = "tenant"
    keep_last: int = 0
    text: str | None = None

    def apply(self, entity: str, value: str, key: TenantKey, trajectory: str) -> str | None:
        """The text in place of `value`; `None` = remove the string that holds it.

        Raises:
            EventDropped: the operator is `drop_event`.
            Refusal: the operator is `quarantine`.
        """
        scope = trajectory if self.scope == "trajectory" else ""
        match self.name:
            case "pseudonym":
                return key.name(entity, value, scope=scope)
            case "hash":
                return key.name(entity, value, scope=scope, digits=HASH_DIGITS)
            case "mask":
                return masked(value, self.keep_last)
            case "replace":
                return f"<{entity}>" if self.text is None else self.text
            case "drop_field":
                return None
            case "drop_event":
                raise EventDropped(entity)
            case "quarantine":
                raise Refusal(
                    "policy_quarantine", f"the policy quarantines events that hold {entity}"
                )
            case _:
                assert_never(self.name)


def masked(value: str, keep_last: int) -> str:
    """Every letter and digit but the last `keep_last` as `*`; at most half of them are kept.

    Masking twice is masking once.
    """
    places = [
        index for index, character in enumerate(value) if character.isalnum() or character == "*"
    ]
    kept = set(places[len(places) - min(keep_last, len(places) // 2) :])
    return "".join(
        "*" if character.isalnum() and index not in kept else character
        for index, character in enumerate(value)
    )
