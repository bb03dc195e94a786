"""The difference between two versions of a policy, rule by rule and in words.

Each change is `weaker` when more may pass or be used than before, `stricter` when less may, and
`changed` when that cannot be said from the rule alone, such as another pattern.
"""

import difflib
from collections.abc import Iterator, Sequence
from typing import Final

from atdp.governance.desk.policy_change import PolicyChange
from atdp.governance.desk.policy_text import PolicyText
from atdp.governance.desk.rule_changes import rule_changes
from atdp.governance.desk.term_changes import term_changes
from atdp.governance.policy.document import PolicyDocument

_ORDER: Final = {"weaker": 0, "changed": 1, "stricter": 2}


def policy_changes(before: PolicyText | None, after: PolicyText) -> Sequence[PolicyChange]:
    """Return the changes from one policy to another, weaker ones first.

    Without `before`, there is no active version, and one line says so.
    """
    if before is None:
        return [PolicyChange("changed", "metadata", "no policy is in force beside it")]
    changes = [*_tenant_changes(before, after)]
    old, new = before.document, after.document
    if isinstance(old, PolicyDocument) and isinstance(new, PolicyDocument):
        changes += [*term_changes(old, new), *rule_changes(old, new)]
    named = {change.part for change in changes} | {"applies_to"}
    changes += _further_changes(before, after, named)
    return sorted(changes, key=lambda change: _ORDER[change.effect])


def text_diff(before: PolicyText | None, after: PolicyText) -> str:
    """Return the unified difference of the texts; empty without `before`."""
    if before is None:
        return ""
    lines = difflib.unified_diff(
        before.text.splitlines(),
        after.text.splitlines(),
        f"{before.content.id}@{before.content.version}",
        f"{after.content.id}@{after.content.version}",
        lineterm="",
    )
    return "\n".join(lines)


def _tenant_changes(before: PolicyText, after: PolicyText) -> Iterator[PolicyChange]:
    old, new = set(before.content.tenants), set(after.content.tenants)
    for tenant in sorted(new - old):
        yield PolicyChange("changed", "applies_to", f"applies to the tenant {tenant}, too")
    if before.content.id != after.content.id:
        return  # The other policy stays in force for the tenants that this one does not name.
    for tenant in sorted(old - new):
        yield PolicyChange("changed", "applies_to", f"no longer applies to the tenant {tenant}")


def _further_changes(
    before: PolicyText, after: PolicyText, named: set[str]
) -> Iterator[PolicyChange]:
    """Yield one line for each part of the document that differs and that no line names yet."""
    old, new = before.document.model_dump(), after.document.model_dump()
    for part in sorted((old.keys() | new.keys()) - named - {"metadata"}):
        if old.get(part) != new.get(part):
            yield PolicyChange("changed", part, f"{part} is different; see the text")
