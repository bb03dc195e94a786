"""Judgements: who may give rewards, feedback and verdicts, what they count for, and their ranges.

The principal is the one whose key signed the record. What an event says of its source
(`source_name`, `actor`, `annotator`) is a claim of that principal. A judgement by a key without the
permission `reward` is a self-reward: the key of an agent signs what the agent says of itself. It is
accepted for analytics alone unless the policy says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from atdp.governance.errors import Refusal
from atdp.governance.policy.rules import RewardTerms
from atdp.runtime import Principal
from atdp.schemas import is_judgement

OUTCOME: Final = "outcome"
"""Dimension of a judgement that names none."""


@dataclass(frozen=True, slots=True)
class RecordSender:
    """The sender of a record; the default is a sender that nobody knows, who may not reward."""

    principal: str | None = None
    role: str | None = None
    may_reward: bool = False

    @classmethod
    def of(cls, principal: Principal) -> "RecordSender":
        """Return the sender whose key signed a record."""
        return cls(principal.actor, principal.role, principal.may("reward"))


UNKNOWN_SENDER: Final = RecordSender()


def holds_judgement(record: Mapping[str, Any]) -> bool:
    """Return whether an event record is a judgement."""
    annotation = record["annotation"]
    return is_judgement(record["kind"], annotation and annotation["name"])


def self_reward(record: Mapping[str, Any], sender: RecordSender, terms: RewardTerms) -> str | None:
    """Return what a self-reward counts for, `analytics` or `train`; None for every other event.

    Raises:
        Refusal: the policy denies self-rewards.
    """
    if sender.may_reward or not holds_judgement(record):
        return None
    if terms.self == "deny":
        raise Refusal(
            "self_reward",
            "the policy denies judgements by keys without the permission reward; "
            "send them with a key of role rater",
        )
    return terms.self


def check_range(record: Mapping[str, Any], terms: RewardTerms) -> None:
    """Check that the value of a reward or of feedback lies in the range of its dimension.

    Feedback may state a range of its own, which reward rules map to 0 … 1; it then holds for it.

    Raises:
        Refusal: it does not; the refusal names no value.
    """
    body = record["reward"] or record["feedback"]
    if not body or body["value"] is None:
        return
    low, high = terms.range_of(body["dimension"] or OUTCOME)
    if record["feedback"] and body["range_min"] is not None and body["range_max"] is not None:
        low, high = body["range_min"], body["range_max"]
    # Written so that a value that is not a number is outside.
    if not low <= body["value"] <= high:
        raise Refusal(
            "reward_out_of_range",
            "the value of a reward or of feedback lies outside the range of its dimension "
            "(`rewards.ranges` of the policy, or the range that the feedback states)",
        )
