"""Checks that the rules of a policy have the effect that they state, with the recognizers of atdp.

`compile_policy` refuses a policy with the first of these problems; here all of them are listed, for
the rules that can be read.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from atdp.governance.detect.custom_pattern import CustomPattern, PatternTrials
from atdp.governance.detect.detector import Detector
from atdp.governance.detect.numbers import NUMBER_FORMS
from atdp.governance.detect.presidio_recognizers import recognizer_classes
from atdp.governance.errors import PolicyError
from atdp.governance.event_paths import event_paths
from atdp.governance.policy.compiled import (
    key_conflicts,
    no_recognizer,
    recognizers,
    threshold,
    without_number_form,
)
from atdp.governance.policy.consistency import Location, PolicyRules, RuleProblem
from atdp.governance.policy.field_rules import dropped_places, matches_nothing
from atdp.governance.policy.rule_packs import is_shipped
from atdp.governance.policy.rules import CATCH_ALL, EntityRule
from atdp.governance.policy.suggestions import did_you_mean

_TIMEOUT_S: Final = 5.0
"""No recognizer searches a text here; whether it has an effect does not depend on its limit."""
_OTHER_ENTITIES: Final = ("PHONE_NUMBER", "SECRET")


def ineffective_rules(rules: PolicyRules, phone_regions: Sequence[str]) -> Iterator[RuleProblem]:
    """Yield the rules that cannot have their effect."""
    yield from _patterns(rules)
    for index, problem in key_conflicts(rules.keys):
        yield RuleProblem(("keys", index), problem)
    yield from _fields(rules)
    yield from _model(rules)
    for name in rules.entities:
        try:
            shipped = recognizers(name, timeout_s=_TIMEOUT_S, phone_regions=phone_regions)
        except PolicyError as error:
            yield RuleProblem(("phone_regions",), str(error))
            continue
        yield from _entity(name, rules.entities[name], shipped, rules.named)


def _entity(
    name: str, rule: EntityRule, shipped: Sequence[Detector], named: Collection[str]
) -> Iterator[RuleProblem]:
    """Yield what is wrong with an entity. `named`: those that patterns, keys or a model find."""
    if rule.numbers == "find" and name not in NUMBER_FORMS:
        yield RuleProblem(("entities", name, "numbers"), without_number_form([name]))
    if name in named:
        return
    if not shipped:
        known = (*recognizer_classes(), *_OTHER_ENTITIES)
        yield RuleProblem(("entities", name), no_recognizer(name) + did_you_mean(name, known))
        return
    conditions = threshold(rule)
    if not any(
        conditions.can_be_reached(each.best_score, conditions.words_of(each)) for each in shipped
    ):
        best = max(each.best_score for each in shipped)
        yield RuleProblem(
            ("entities", name, "min_score"),
            f"no finding of {name} counts: its recognizers give a score of at most {best}, "
            f"and min_score is {rule.min_score}",
        )


def _patterns(rules: PolicyRules) -> Iterator[RuleProblem]:
    trials = PatternTrials()
    for index, rule in rules.patterns.items():
        if is_shipped(rule):
            continue
        location: Location = ("patterns", index, "pattern")
        try:
            CustomPattern(rule.definition, _TIMEOUT_S, trials)
        except PolicyError as error:
            yield RuleProblem(location, str(error))
        entity = rules.entities.get(rule.entity)
        if entity is not None and not threshold(entity).can_be_reached(
            rule.score, frozenset(rule.context)
        ):
            yield RuleProblem(
                ("patterns", index, "score"),
                f"no finding of the pattern {rule.id} counts: its score of {rule.score} never "
                f"reaches the min_score of {entity.min_score} of {rule.entity}",
            )


def _fields(rules: PolicyRules) -> Iterator[RuleProblem]:
    unmatched = {index: rule for index, rule in rules.fields.items() if matches_nothing(rule.path)}
    for index, rule in unmatched.items():
        yield RuleProblem(
            ("fields", index, "path"),
            f"no event has a field {rule.path!r}{did_you_mean(rule.path, event_paths())}",
        )
    matched = [rule for index, rule in rules.fields.items() if index not in unmatched]
    if not matched or matched[-1].path != CATCH_ALL:
        return
    try:
        dropped_places(matched)
    except PolicyError as error:
        yield RuleProblem(("fields",), str(error))


def _model(rules: PolicyRules) -> Iterator[RuleProblem]:
    if rules.ner is None:
        return
    # Imported here, because it loads spaCy.
    from atdp.governance.detect.ner import ner_detector

    try:
        ner_detector(rules.ner.model, rules.ner.entities)
    except PolicyError as error:
        yield RuleProblem(("ner",), str(error))
