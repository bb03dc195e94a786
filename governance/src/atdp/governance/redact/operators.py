"""Redaction operators: the rules for what replaces a detected value.

`surrogate`, `pseudonym`, `hash`, `mask` and `replace` write other text. `drop_field` removes the
whole string. `drop_event` and `quarantine` decide about the whole event. Every operator leaves text
alone that it wrote, so governing a governed event changes nothing. The exception are surrogates
whose form a value can have, too (`atdp.governance.redact.surrogates`): they become others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from atdp.governance.errors import EventDropped, Refusal
from atdp.governance.redact.pseudonyms import HASH_DIGITS, TenantKey

OperatorName: TypeAlias = Literal[
    "surrogate", "pseudonym", "hash", "mask", "replace", "drop_field", "drop_event", "quarantine"
]
PseudonymScope: TypeAlias = Literal["tenant", "trajectory"]

SEVERITY: Mapping[OperatorName, int] = {
    "surrogate": 5,
    "pseudonym": 10,
    "hash": 20,
    "mask": 30,
    "replace": 40,
    "drop_field": 50,
    "drop_event": 60,
    "quarantine": 70,
}
"""Decides where detected spans overlap: the operator that leaves less information wins."""


@dataclass(frozen=True, slots=True)
class RedactionOperator:
    """The redaction of one entity.

    `scope`: the range within which a value always gets the same surrogate or pseudonym.
    `keep_last`: the number of characters that a mask keeps. `text`: the replacement of `replace`;
    None writes the entity.
    """

    name: OperatorName
    scope: PseudonymScope = "tenant"
    keep_last: int = 0
    text: str | None = None

    def apply(self, entity: str, value: str, key: TenantKey, trajectory: str) -> str | None:
        """Return the text that replaces `value`; None removes the string that holds it.

        Raises:
            EventDropped: the operator is `drop_event`.
            Refusal: the operator is `quarantine`.
        """
        scope = trajectory if self.scope == "trajectory" else ""
        match self.name:
            case "surrogate":
                return key.surrogate(entity, value, scope=scope)
            case "pseudonym":
                return key.pseudonym(entity, value, scope=scope)
            case "hash":
                return key.pseudonym(entity, value, scope=scope, digits=HASH_DIGITS)
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
    """Return `value` with every letter and digit except the last `keep_last` replaced by `*`.

    At most half of the letters and digits are kept. Masking a masked value changes nothing.
    """
    places = [
        index for index, character in enumerate(value) if character.isalnum() or character == "*"
    ]
    kept = set(places[len(places) - min(keep_last, len(places) // 2) :])
    return "".join(
        "*" if character.isalnum() and index not in kept else character
        for index, character in enumerate(value)
    )
