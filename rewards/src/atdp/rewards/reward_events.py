"""Derived rewards as events: which ones to emit, under ids that follow from their content.

A reward is emitted when the one in effect differs in value, rule, evidence or rules file; it names
the one that it supersedes. A reward whose evidence no longer counts, whose dimension the rules have
no more, or beside which a newer one stands, is retracted by a successor without a value. The event
id is derived from everything
that the event says, so the same derivation made twice, by a worker that was killed or by two
workers, is one event.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from atdp.rewards.derivation import DerivedReward
from atdp.rewards.evidence import AttemptEvidence, Target
from atdp.schemas import (
    Agent,
    Event,
    Reward,
    Source,
    TenantId,
    TrajectoryId,
    deterministic_event_id,
)

SOURCE_NAME = "reward-rules"
"""`source_name` of every derived reward."""
_SOURCE = Source(format="rewards", version="1")
_NO_EVIDENCE = "no rule has evidence any more"


class Aim(NamedTuple):
    """The object of a derived reward, and the dimension in which it is judged."""

    dimension: str
    target: Target


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardInEffect:
    """A derived reward that no other reward supersedes."""

    event_id: str
    value: float | None
    """None: it was retracted."""
    rule: str | None
    rules_version: str | None
    evidence: tuple[str, ...]
    at: datetime


def rewards_to_emit(
    evidence: AttemptEvidence,
    derived: Sequence[DerivedReward],
    in_effect: Mapping[Aim, Sequence[RewardInEffect]],
    *,
    rules_version: str,
    dimension: str,
) -> Iterator[Event]:
    """Yield the events after which the derived rewards, and no others, are in effect.

    `in_effect` has the rewards of each aim in the order of the log.
    """
    by_aim = {Aim(dimension, reward.target): reward for reward in derived}
    for aim, reward in by_aim.items():
        before = _newest(in_effect.get(aim, ()))
        if before is not None and _says(before, reward, rules_version):
            continue
        body = Reward(
            target_kind=reward.target.kind,
            target_event_id=reward.target.event_id,
            target_step=reward.target.step,
            value=reward.value,
            dimension=dimension,
            source_name=SOURCE_NAME,
            evaluator_version=rules_version,
            rule=reward.rule,
            evidence=reward.evidence,
            observed_at=reward.at,
            supersedes=None if before is None else before.event_id,
        )
        yield _event(evidence, body, reward.at)
    for aim, rewards in in_effect.items():
        replaced = _newest(rewards) if aim in by_aim else None
        for reward_before in rewards:
            if reward_before.value is not None and reward_before is not replaced:
                yield _retraction(evidence, aim, reward_before, rules_version, aim in by_aim)


def _newest(rewards: Sequence[RewardInEffect]) -> RewardInEffect | None:
    """Return the newest reward with a value, else the newest one; None without any."""
    valued = [reward for reward in rewards if reward.value is not None]
    return next(iter([*reversed(valued), *reversed(rewards)]), None)


def _retraction(
    evidence: AttemptEvidence,
    aim: Aim,
    before: RewardInEffect,
    rules_version: str,
    is_overtaken: bool,
) -> Event:
    why = "another reward was made while this one landed" if is_overtaken else _NO_EVIDENCE
    body = Reward(
        target_kind=aim.target.kind,
        target_event_id=aim.target.event_id,
        target_step=aim.target.step,
        critique=f"retracted: {why}",
        dimension=aim.dimension,
        source_name=SOURCE_NAME,
        evaluator_version=rules_version,
        rule=before.rule,
        observed_at=before.at,
        supersedes=before.event_id,
    )
    return _event(evidence, body, before.at)


def _says(before: RewardInEffect, reward: DerivedReward, rules_version: str) -> bool:
    return (before.value, before.rule, before.rules_version, before.evidence) == (
        reward.value,
        reward.rule,
        rules_version,
        reward.evidence,
    )


def _event(evidence: AttemptEvidence, body: Reward, at: datetime) -> Event:
    attempt = evidence.attempt
    event_id = deterministic_event_id(at, SOURCE_NAME, repr(attempt), repr(body))
    return Event(
        event_id=event_id,
        tenant_id=TenantId(attempt.tenant),
        trajectory_id=TrajectoryId(attempt.trajectory),
        attempt=attempt.attempt,
        # Each derived reward is numbered by itself: its producer emits nothing else.
        producer_id=f"{SOURCE_NAME}-{event_id}",
        seq=0,
        occurred_at=at,
        session_id=evidence.session_id,
        task_id=evidence.task_id,
        agent=Agent(id=evidence.agent_id),
        source=_SOURCE,
        status="ok",
        body=body,
    )
