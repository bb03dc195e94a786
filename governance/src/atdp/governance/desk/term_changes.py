"""Changes of the terms of use: purposes, consent, fidelity, retention, floors of recall."""

from collections.abc import Iterator
from typing import Final

from atdp.governance.desk.policy_change import (
    PolicyChange,
    number_change,
    order_change,
    set_changes,
)
from atdp.governance.policy.document import GRANTED, PolicyDocument

_FIDELITY: Final = ("exact", "context_changed", "spliced", "dropped")
"""The strictest first."""


_SELF_REWARDS: Final = ("deny", "analytics", "train")
"""The strictest first."""


def term_changes(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    """Yield the changes of what events may be used for, and of the floors of recall."""
    yield from set_changes(
        "purposes",
        old.purposes,
        new.purposes,
        ("allows the purpose {}", "no longer allows the purpose {}"),
        more_is="weaker",
    )
    if old.consent != new.consent:
        granted = GRANTED in new.consent.model_dump().values()
        yield PolicyChange(
            "weaker" if granted else "stricter",
            "consent",
            f"consent: {old.consent.model_dump()} → {new.consent.model_dump()}",
        )
    for purpose, worst in new.min_fidelity.model_dump().items():
        yield from order_change(
            "min_fidelity",
            getattr(old.min_fidelity, purpose),
            worst,
            _FIDELITY,
            f"worst fidelity for {purpose}",
        )
    yield from order_change(
        "rewards", old.rewards.self, new.rewards.self, _SELF_REWARDS, "use of self-rewards"
    )
    yield from _ranges(old, new)
    yield from _retention(old, new)
    yield from _floors(old, new)


def _ranges(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    for dimension in sorted({"*", *old.rewards.ranges, *new.rewards.ranges}):
        before, now = old.rewards.range_of(dimension), new.rewards.range_of(dimension)
        if before != now:
            is_wider = now[0] < before[0] or now[1] > before[1]
            words = f"range of rewards in {dimension}: {before} → {now}"
            yield PolicyChange("weaker" if is_wider else "stricter", "rewards", words)


def _retention(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    yield from set_changes(
        "retention",
        old.retention,
        new.retention,
        ("events of the class {} expire", "events of the class {} no longer expire"),
    )
    for name in sorted(old.retention.keys() & new.retention.keys()):
        yield from number_change(
            "retention",
            old.retention[name],
            new.retention[name],
            f"days for the class {name}",
            more_is="weaker",
        )


def _floors(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    yield from set_changes(
        "min_recall",
        old.min_recall,
        new.min_recall,
        ("recall of {} has a floor", "recall of {} has no floor any more"),
    )
    for name in sorted(old.min_recall.keys() & new.min_recall.keys()):
        yield from number_change(
            "min_recall",
            old.min_recall[name],
            new.min_recall[name],
            f"floor of the recall of {name}",
            more_is="stricter",
        )
