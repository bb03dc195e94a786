"""What the field rules of a policy remove, worked out once against the event schema.

A rule says so for every place that its path fits and for all that lies below: `observation` removes
what is in it, `observation.messages` the list, `usage.*` the numbers. Of several rules that fit a
field or what holds it, the first decides. A rule that cannot do what it says is refused when the
policy is loaded: a path that no event has would be a rule that silently does not hold.
"""

import fnmatch
import functools
from collections.abc import Sequence

from atdp.governance.errors import PolicyError
from atdp.governance.event_paths import CANNOT, containers, event_paths, leaves_below
from atdp.governance.policy.document import CATCH_ALL, FieldRule

_NEEDED = ("event_id", "tenant_id", "trajectory_id", "producer_id", "kind")
"""Fields that could be empty, but without which an event belongs nowhere."""

_MODEL_READS = ("observation.messages", "observation.tools_json", "outcome.message", "action.message", "action.tool_call",
                "trajectory_started.task")  # fmt: skip
"""Texts that make up the context of later model calls, so their prompt token ids spell them out."""


def dropped_places(rules: Sequence[FieldRule], *, policy: str) -> frozenset[str]:
    """The paths (without indexes) of places that are emptied whole; places within them are not listed.

    Raises:
        PolicyError: a rule's path fits nothing, or names what an event cannot be without.
    """
    for rule in rules:
        if not any(_fits(path, rule.path) for path in event_paths()):
            raise PolicyError(
                f"policy {policy}: the field rule {rule.path!r} fits no field of an event; the reference of events lists their paths"
            )
    gone = {
        path for path, place in event_paths().items() if place.is_leaf and drops_leaf(rules, path)
    }
    whole = {
        path
        for path, place in event_paths().items()
        if place.empty is not CANNOT and path not in _NEEDED and gone.issuperset(leaves_below(path))
    }
    covered = {leaf for path in whole for leaf in leaves_below(path)}
    if left := sorted(gone - covered):
        raise PolicyError(
            f"policy {policy}: the field rules would drop {', '.join(left[:5])}, without which an event belongs nowhere or fits no schema; "
            "put a rule {path: …, do: scan} for it before the others, or name what holds it"
        )
    return frozenset(path for path in whole if not whole.intersection(containers(path)))


def drops_leaf(rules: Sequence[FieldRule], path: str) -> bool:
    """Whether the first rule that fits the leaf, or what holds it, drops it."""
    held_by = (path, *containers(path))
    rule = next(rule for rule in rules if any(_fits(each, rule.path) for each in held_by))
    return rule.do == "drop_field"


def drops_context(dropped: frozenset[str]) -> bool:
    """Whether text that model calls have read is among the dropped places."""
    return any(
        event_paths()[leaf].kind == "string"
        for path in dropped
        for leaf in leaves_below(path)
        if leaf in _MODEL_READS or any(each in _MODEL_READS for each in containers(leaf))
    )


@functools.lru_cache(maxsize=16_384)
def _fits(path: str, pattern: str) -> bool:
    return pattern == CATCH_ALL or fnmatch.fnmatchcase(path, pattern)
