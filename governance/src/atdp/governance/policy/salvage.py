"""The readable rules of a policy that has wrong parts, so that a linter can check them all at once.

Each rule is read on its own. One that cannot be read is left out: its own problems are reported by
the validation of the whole document.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from atdp.governance.policy.consistency import PolicyRules
from atdp.governance.policy.policy_part import PolicyPart
from atdp.governance.policy.rule_packs import with_included_rules
from atdp.governance.policy.rules import (
    EntityRule,
    FieldRule,
    KeyRule,
    LearnRule,
    NerRule,
    PatternRule,
)

P = TypeVar("P", bound=PolicyPart)


def readable_rules(policy: Mapping[str, Any]) -> PolicyRules:
    """Return the rules that can be read; lists keep the indexes of the document.

    Included rules of the package follow after the policy's own.
    """
    whole = with_included_rules(policy)
    entities = whole.get("entities")
    entities = entities if isinstance(entities, Mapping) else {}
    ner = _read(NerRule, whole["ner"]) if "ner" in whole else None
    learn = _read(LearnRule, whole["learn"]) if "learn" in whole else None
    return PolicyRules(
        entities={
            str(name): rule
            for name, value in entities.items()
            if (rule := _read(EntityRule, value)) is not None
        },
        declared=frozenset(map(str, entities)),
        named=frozenset(_named(whole)),
        patterns=_indexed(PatternRule, whole.get("patterns")),
        keys=_indexed(KeyRule, whole.get("keys")),
        fields=_indexed(FieldRule, whole.get("fields")),
        learn=learn or LearnRule(),
        ner=ner,
    )


def _named(policy: Mapping[str, Any]) -> Iterator[str]:
    for section in ("patterns", "keys"):
        items = policy.get(section)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and isinstance(item.get("entity"), str):
                yield item["entity"]
    ner = policy.get("ner")
    names = ner.get("entities") if isinstance(ner, Mapping) else None
    yield from (
        name for name in (names if isinstance(names, list) else ()) if isinstance(name, str)
    )


def _indexed(model: type[P], items: Any) -> Mapping[int, P]:
    if not isinstance(items, list):
        return {}
    rules = ((index, _read(model, item)) for index, item in enumerate(items))
    return {index: rule for index, rule in rules if rule is not None}


def _read(model: type[P], value: Any) -> P | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None
