"""Changes of the rules of redaction: entities, patterns, keys, fields, models, what is learned."""

from collections.abc import Iterator, Mapping
from typing import Final

from atdp.governance.desk.policy_change import (
    PolicyChange,
    number_change,
    order_change,
    other_change,
    set_changes,
)
from atdp.governance.policy.document import PolicyDocument
from atdp.governance.policy.rules import EntityRule, PatternRule
from atdp.governance.redact.operators import SEVERITY

_OPERATORS: Final = sorted(SEVERITY, key=lambda name: -SEVERITY[name])
_KEY_LISTS: Final = ("names", "whole", "anywhere", "roles")


def rule_changes(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    """Yield the changes of what is found and of what replaces it."""
    yield from _entities(old.entities, new.entities)
    yield from _patterns(
        {rule.id: rule for rule in old.patterns}, {rule.id: rule for rule in new.patterns}
    )
    yield from set_changes(
        "keys",
        _keys(old, _KEY_LISTS),
        _keys(new, _KEY_LISTS),
        ("values of the key {}", "no longer values of the key {}"),
    )
    yield from set_changes(
        "keys",
        _keys(old, ("unless",)),
        _keys(new, ("unless",)),
        ("except the key {}", "no longer except the key {}"),
        more_is="weaker",
    )
    yield from _fields(old, new)
    yield from _ner(old, new)
    yield from order_change(
        "learn", old.learn.scope, new.learn.scope, ("tenant", "trajectory", "off"), "learned for"
    )
    if "off" not in (old.learn.scope, new.learn.scope):
        yield from set_changes(
            "learn",
            old.learned_entities,
            new.learned_entities,
            ("values of {} are learned", "values of {} are no longer learned"),
        )
    yield from set_changes(
        "phone_regions",
        old.phone_regions,
        new.phone_regions,
        ("phone numbers of {} are found", "phone numbers of {} are no longer found"),
    )


def _entities(
    old: Mapping[str, EntityRule], new: Mapping[str, EntityRule]
) -> Iterator[PolicyChange]:
    yield from set_changes(
        "entities",
        old,
        new,
        ("{} is redacted", "{} is no longer redacted"),
    )
    for name in sorted(old.keys() & new.keys()):
        yield from _entity(name, old[name], new[name])


def _entity(name: str, old: EntityRule, new: EntityRule) -> Iterator[PolicyChange]:
    part = "entities"
    yield from order_change(part, old.do, new.do, _OPERATORS, f"{name} by")
    yield from number_change(
        part, old.min_score, new.min_score, f"{name} counts from the score", more_is="weaker"
    )
    yield from order_change(
        part, old.scope, new.scope, ("trajectory", "tenant"), f"{name} is the same value within"
    )
    yield from number_change(
        part, old.keep_last, new.keep_last, f"{name} keeps characters", more_is="weaker"
    )
    yield from order_change(
        part, old.bare_digits, new.bare_digits, ("find", "in_context"), f"{name} as digits"
    )
    yield from order_change(
        part, old.numbers, new.numbers, ("find", "in_context"), f"{name} as a number"
    )
    yield from other_change(part, old.context, new.context, f"{name} has other context words")
    yield from other_change(part, old.text, new.text, f"{name} is replaced by another text")


def _patterns(
    old: Mapping[str, PatternRule], new: Mapping[str, PatternRule]
) -> Iterator[PolicyChange]:
    yield from set_changes("patterns", old, new, ("the pattern {} finds", "no pattern {} any more"))
    for name in sorted(old.keys() & new.keys()):
        yield from other_change("patterns", old[name], new[name], f"the pattern {name} is another")


def _keys(policy: PolicyDocument, lists: tuple[str, ...]) -> set[str]:
    return {
        f"{name} ({each}) of {rule.entity}"
        for rule in policy.keys
        for each in lists
        for name in getattr(rule, each)
    }


def _fields(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    yield from set_changes(
        "fields",
        _dropped(old),
        _dropped(new),
        ("the field {} is emptied", "the field {} is no longer emptied"),
    )


def _dropped(policy: PolicyDocument) -> set[str]:
    return {rule.path for rule in policy.fields if rule.do == "drop_field"}


def _ner(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    yield from set_changes(
        "ner",
        [] if old.ner is None else old.ner.entities,
        [] if new.ner is None else new.ner.entities,
        ("the model of names finds {}", "no model of names finds {} any more"),
    )
    if old.ner is not None and new.ner is not None:
        yield from other_change(
            "ner", old.ner.model, new.ner.model, f"another model of names: {new.ner.model}"
        )
