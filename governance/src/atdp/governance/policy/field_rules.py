"""The places that a policy's field rules empty, computed once against the event schema.

A rule applies to every place that its path matches and to everything inside it: `observation`
empties all of it, `observation.messages` the list, `usage.*` the numbers. Where several rules match
a field or a place that contains it, the first one decides. A rule that cannot have its effect is
refused when the policy is loaded. For example, a path that no event has would be a rule without
effect.
"""

import fnmatch
import functools
from collections.abc import Sequence
from typing import Final

from atdp.governance.errors import PolicyError
from atdp.governance.event_paths import NOT_EMPTIABLE, containers, event_paths, leaves_below
from atdp.governance.policy.rules import CATCH_ALL, FieldRule

_REQUIRED: Final = ("event_id", "tenant_id", "trajectory_id", "producer_id", "kind")
"""Fields that the schema would let be empty, but without which an event has no owner or place."""
_READ_BY_MODELS: Final = (
    "observation.messages",
    "observation.tools_json",
    "outcome.message",
    "action.message",
    "action.tool_call",
    "trajectory_started.task",
)
"""Texts that are the context of later model calls, so that prompt token ids contain them."""
_SHOWN_FIELDS: Final = 5
"""Fields that one message lists."""


def dropped_places(rules: Sequence[FieldRule]) -> frozenset[str]:
    """Return the paths (without indexes) of the places that are emptied as a whole.

    Places within them are not listed.

    Raises:
        PolicyError: a rule's path matches nothing, or matches what an event must have.
    """
    for rule in rules:
        if matches_nothing(rule.path):
            raise PolicyError(
                f"the field rule {rule.path!r} matches no field of an event; "
                "the reference of events lists their paths"
            )
    dropped_leaves = {
        path for path, place in event_paths().items() if place.is_leaf and drops_leaf(rules, path)
    }
    emptied = {path for path in event_paths() if _can_be_emptied(path, dropped_leaves)}
    covered = {leaf for path in emptied for leaf in leaves_below(path)}
    if uncovered := sorted(dropped_leaves - covered):
        raise PolicyError(
            f"the field rules would drop {', '.join(uncovered[:_SHOWN_FIELDS])}, "
            "without which an event has no owner or does not match the schema; "
            "put a rule {path: …, do: scan} for it before the others, "
            "or name the place that contains it"
        )
    return frozenset(path for path in emptied if not emptied.intersection(containers(path)))


def drops_leaf(rules: Sequence[FieldRule], path: str) -> bool:
    """Return True when the first rule that matches the leaf, or its containers, drops it."""
    places = (path, *containers(path))
    rule = next(rule for rule in rules if any(_matches(each, rule.path) for each in places))
    return rule.do == "drop_field"


def drops_context(dropped: frozenset[str]) -> bool:
    """Return True when text that model calls have read is among the dropped places."""
    leaves = {leaf for path in dropped for leaf in leaves_below(path)}
    return any(
        event_paths()[leaf].kind == "string"
        and not {leaf, *containers(leaf)}.isdisjoint(_READ_BY_MODELS)
        for leaf in leaves
    )


def matches_nothing(pattern: str) -> bool:
    """Return True for the path of a rule that is that of no field of an event."""
    return not any(_matches(path, pattern) for path in event_paths())


def _can_be_emptied(path: str, dropped_leaves: set[str]) -> bool:
    """Return True for a place that may be empty and whose leaves are all dropped."""
    return (
        event_paths()[path].empty is not NOT_EMPTIABLE
        and path not in _REQUIRED
        and dropped_leaves.issuperset(leaves_below(path))
    )


@functools.lru_cache(maxsize=16_384)
def _matches(path: str, pattern: str) -> bool:
    return pattern == CATCH_ALL or fnmatch.fnmatchcase(path, pattern)
