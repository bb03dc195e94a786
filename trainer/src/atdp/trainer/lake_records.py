"""Conversion of the governed reader's records to the trainer's trajectories."""

import json
from dataclasses import replace

from atdp.lakehouse import AdmissionRules, GenerationFacts, GenerationRecord, TrajectoryRecord
from atdp.schemas import message_to_chat
from atdp.trainer.trajectory import (
    REWARD_COUNTS,
    RL_TRAINING,
    TrainingTrajectory,
    TrajectoryKey,
    Turn,
    generation_refusal,
)


def trajectory_of(record: TrajectoryRecord) -> TrainingTrajectory:
    """Return the trainer's form of a record."""
    policies = sorted({f"{call.policy_id}@{call.policy_version}" for call in record.generations})
    times = [call.occurred_at for call in record.generations if call.occurred_at is not None]
    started = min(times, default=None)
    tokens_refused = _tokens_refused(record)
    rules = RL_TRAINING if tokens_refused is None else REWARD_COUNTS
    return TrainingTrajectory(
        key=TrajectoryKey(record.tenant_id, record.trajectory_id, record.attempt),
        task=record.task_id,
        group=record.group_id,
        turns=tuple(
            replace(_turn(call, rules), reward=reward)
            for call, reward in zip(record.generations, rewards_of_calls(record), strict=True)
        ),
        reward=record.reward,
        status=record.status,
        started_us=0 if started is None else round(started.timestamp() * 1_000_000),
        partition=record.kafka_partition,
        first_offset=record.first_offset,
        messages=tuple(message_to_chat(message) for message in record.messages),
        tools=tuple(json.loads(record.tools_json)) if record.tools_json else (),
        policy=policies[-1] if policies else None,
        agent=record.agent_id or "",
        prompt_and_tools=f"{record.prompt_version or ''} {record.tools_version or ''}",
        tool_errors=record.tool_errors,
        tokens_refused=tokens_refused,
        self_rewarded=record.self_rewarded,
    )


def _tokens_refused(record: TrajectoryRecord) -> str | None:
    """Return why the tokens of a redacted record cannot be trained on; None when they can."""
    if record.tokens_refused is not None:
        return record.tokens_refused
    if {call.token_fidelity for call in record.generations} <= {"exact"}:
        return None
    refusals = (generation_refusal(_facts(call)) for call in record.generations)
    return next((reason for reason in refusals if reason is not None), None)


def rewards_of_calls(record: TrajectoryRecord) -> list[float | None]:
    """Return the reward of every model call: the sum of the rewards that belong to it.

    A reward for a model call belongs to this call. A reward for another event (the result of a
    tool), or for a step as a whole, belongs to the last call of the step, or else to the last one
    before it, or else to the first. `None`: a call has no reward, which is not a reward of 0.
    """
    calls = record.generations
    rewards: list[float | None] = [None] * len(calls)
    numbers = {call.event_id: number for number, call in enumerate(calls)}
    for reward in record.step_rewards if calls else ():
        until = [number for number, call in enumerate(calls) if call.step <= reward.step]
        number = numbers.get(reward.event_id or "", until[-1] if until else 0)
        rewards[number] = (rewards[number] or 0.0) + reward.value
    return rewards


def _turn(call: GenerationRecord, rules: AdmissionRules) -> Turn:
    return Turn(
        prompt_ids=call.prompt_token_ids,
        output_ids=call.output_token_ids,
        logprobs=call.output_logprobs,
        versions=call.weight_versions,
        loss_mask=call.loss_mask,
        temperature=1.0 if call.temperature is None else call.temperature,
        top_p=1.0 if call.top_p is None else call.top_p,
        top_k=-1 if call.top_k is None else call.top_k,
        min_p=0.0 if call.min_p is None else call.min_p,
        tokenizer=call.tokenizer_hash,
        stale_from=call.stale_from,
        refusal=generation_refusal(_facts(call), rules),
    )


def _facts(call: GenerationRecord) -> GenerationFacts:
    """Return the facts for admission; a parameter that was not recorded is None in them."""
    return GenerationFacts(
        prompt_token_ids=call.prompt_token_ids,
        output_token_ids=call.output_token_ids,
        output_logprobs=call.output_logprobs,
        loss_mask=call.loss_mask,
        temperature=call.temperature,
        top_p=call.top_p,
        top_k=call.top_k,
        min_p=call.min_p,
        sampling_altered_by=call.sampling_altered_by,
        token_fidelity=call.token_fidelity,
        weight_versions=call.weight_versions,
        training_eligible=call.training_eligible,
        broken_prefix=call.broken_prefix,
        context_intact=call.context_intact,
    )
