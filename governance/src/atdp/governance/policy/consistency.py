"""Checks that the rules of a policy fit together: all those that need no recognizer.

Each problem has its location in the document, such as `("patterns", 2, "entity")`. Parsing refuses
a policy with any of them; the linter shows all of them, also of a policy whose other parts cannot
be read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from atdp.governance.detect.named_values import PERSON
from atdp.governance.policy.rule_packs import is_shipped
from atdp.governance.policy.rules import (
    CATCH_ALL,
    EntityRule,
    FieldRule,
    KeyRule,
    LearnRule,
    NerRule,
    PatternRule,
)

Location: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """Something wrong with the part of a policy at `location`."""

    location: Location
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRules:
    """The rules of a policy; lists by their index in the document."""

    entities: Mapping[str, EntityRule]
    declared: frozenset[str]
    """Names of all entities, also of those whose rule cannot be read."""
    named: frozenset[str]
    """Entities that patterns, keys or the model find, also those whose rule cannot be read."""
    patterns: Mapping[int, PatternRule] = field(default_factory=dict)
    keys: Mapping[int, KeyRule] = field(default_factory=dict)
    fields: Mapping[int, FieldRule] = field(default_factory=dict)
    learn: LearnRule = field(default_factory=LearnRule)
    ner: NerRule | None = None


def inconsistencies(rules: PolicyRules) -> Iterator[RuleProblem]:
    """Yield what does not fit together."""
    yield from _without_catch_all(rules)
    yield from _undeclared(rules)
    yield from _roles_without_model(rules)
    yield from _patterns(rules)
    for name, rule in rules.entities.items():
        if rule.text is not None and rule.do != "replace":
            yield RuleProblem(
                ("entities", name, "text"),
                f"{name}: text belongs to the operator replace, not {rule.do}",
            )
        if rule.keep_last and rule.do != "mask":
            yield RuleProblem(
                ("entities", name, "keep_last"),
                f"{name}: keep_last belongs to the operator mask, not {rule.do}",
            )


def _without_catch_all(rules: PolicyRules) -> Iterator[RuleProblem]:
    if not rules.fields:
        return
    last = max(rules.fields)
    if (rules.fields[last].path, rules.fields[last].do) != (CATCH_ALL, "scan"):
        yield RuleProblem(
            ("fields", last),
            f'the last of fields must be the catch-all {{path: "{CATCH_ALL}", do: scan}}',
        )


def _undeclared(rules: PolicyRules) -> Iterator[RuleProblem]:
    named: list[tuple[Location, str]] = []
    named += [
        (("patterns", index, "entity"), each.entity) for index, each in rules.patterns.items()
    ]
    named += [(("keys", index, "entity"), each.entity) for index, each in rules.keys.items()]
    for section, names in (
        ("learn", rules.learn.entities),
        ("ner", None if rules.ner is None else rules.ner.entities),
    ):
        named += [((section, "entities", index), name) for index, name in enumerate(names or ())]
    for location, name in named:
        if name not in rules.declared:
            yield RuleProblem(
                location, f"{location[0]} names the entity {name}, which entities does not declare"
            )


def _roles_without_model(rules: PolicyRules) -> Iterator[RuleProblem]:
    if rules.ner is not None and PERSON in rules.ner.entities:
        return
    for index, rule in rules.keys.items():
        if rule.roles:
            yield RuleProblem(
                ("keys", index, "roles"), f"keys with roles need ner with the entity {PERSON}"
            )


def _patterns(rules: PolicyRules) -> Iterator[RuleProblem]:
    ids: set[str] = set()
    for index, rule in rules.patterns.items():
        if rule.id in ids:
            yield RuleProblem(("patterns", index, "id"), f"two patterns have the id {rule.id}")
        ids.add(rule.id)
        if rule.syntax == "regex" and not is_shipped(rule):
            yield RuleProblem(
                ("patterns", index, "syntax"),
                f"the pattern {rule.id} is not one that the package ships; only those may use the "
                "syntax regex. Write it in the syntax re2",
            )
