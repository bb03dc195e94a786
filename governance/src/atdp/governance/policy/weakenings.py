"""The places at which a policy redacts less, or allows more, than another one."""

from collections.abc import Iterator, Mapping
from typing import Any

from atdp.governance.policy.consistency import PolicyRules, RuleProblem
from atdp.governance.policy.document import GRANTED, PolicyDocument
from atdp.governance.redact.operators import SEVERITY


def weakenings(
    policy: Mapping[str, Any], rules: PolicyRules, before: PolicyDocument
) -> Iterator[RuleProblem]:
    """Yield what is weaker in a policy than `before`.

    `policy`: the fields as written. `rules`: those of its rules that can be read.
    """
    name = f"{before.metadata.id}@{before.metadata.version}"
    for entity, old in before.entities.items():
        new = rules.entities.get(entity)
        if new is None:
            if entity not in rules.declared:
                yield RuleProblem(("entities",), f"{entity} is redacted by {name}, not here")
            continue
        if SEVERITY[new.do] < SEVERITY[old.do]:
            yield RuleProblem(
                ("entities", entity, "do"),
                f"the operator {new.do} for {entity} is weaker than {old.do} of {name}",
            )
        if new.min_score > old.min_score:
            yield RuleProblem(
                ("entities", entity, "min_score"),
                f"{entity} counts from a score of {new.min_score} on, in {name} from "
                f"{old.min_score}",
            )
    dropped = {rule.path for rule in rules.fields.values() if rule.do == "drop_field"}
    for rule in before.fields:
        if rule.do == "drop_field" and rule.path not in dropped:
            yield RuleProblem(("fields",), f"{name} drops the field {rule.path}; here no rule does")
    yield from _allowed(policy, before, name)


def _allowed(policy: Mapping[str, Any], before: PolicyDocument, name: str) -> Iterator[RuleProblem]:
    purposes = policy.get("purposes", PolicyDocument.model_fields["purposes"].default)
    for purpose in purposes if isinstance(purposes, list) else ():
        if purpose not in before.purposes:
            yield RuleProblem(("purposes",), f"the purpose {purpose} is new; {name} has none of it")
    consent = policy.get("consent")
    granted = isinstance(consent, Mapping) and consent.get("train") == GRANTED
    if granted and before.consent.train != GRANTED:
        yield RuleProblem(("consent",), f"consent to training is granted; {name} does not grant it")
