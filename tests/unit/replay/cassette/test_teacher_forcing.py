"""Teacher forcing shows the recorded prefix at every step, whatever was answered before."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.replay.cassette.conversations import (
    ORDER,
    RULES,
    Chat,
    calling,
    cassette,
    recording,
    result,
)

from atdp.lakehouse import GenerationRecord
from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.hermetic_run import REPLY, ReplayTools
from atdp.replay.cassette.recording import Recording
from atdp.replay.cassette.self_agreement import pools, replay_against_itself
from atdp.replay.cassette.teacher_forcing import action_likelihoods, force_recording, has_exact_ids
from atdp.replay.cassette.teacher_replay import forced_ratios
from atdp.replay.errors import TurnRefused
from atdp.replay.estimators import Floats
from atdp.schemas import Message, messages_from_chat

TOOLS = ReplayTools(settings=CassetteSettings(), rules=RULES, changes=Counterfactual())
FIND = calling(("find", {"item": "rope"}))


class AlwaysFinds:
    """An agent that makes one call, and takes no conversation of nine messages."""

    def __init__(self) -> None:
        self.shown: list[Sequence[Chat]] = []

    def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message:
        self.shown.append(list(messages))
        if len(messages) == 7:
            raise TurnRefused("too long")
        return messages_from_chat([FIND])[0]


def test_every_step_is_compared_from_the_recorded_prefix() -> None:
    agent = AlwaysFinds()
    forced = force_recording(recording(), agent, TOOLS)
    assert [step.agrees for step in forced.steps] == [False, False, None, True, False]
    assert [step.tools for step in forced.steps][1:] == [(REPLY,), ("order",), ("find",), (REPLY,)]
    assert [len(shown) for shown in agent.shown] == [2, 5, 7, 9, 11]
    plain = [message["role"] for message in ORDER]
    assert [message["role"] for message in agent.shown[-1]] == plain[:11]
    assert forced == force_recording(recording(), AlwaysFinds(), TOOLS)


def test_beside_the_recorded_agent_only_the_steps_count_at_which_it_was_compared_itself() -> None:
    other = (*ORDER[:5], calling(("order", {"item": "rope", "count": 1})), result("ordered"))
    cassettes = [cassette(name="a"), cassette(other, name="b")]
    itself = replay_against_itself(cassettes, TOOLS, pools(cassettes))
    assert [[step.agrees for step in run.steps] for run in itself] == [[True, False], [True, False]]
    forced = [force_recording(each.recording, AlwaysFinds(), TOOLS) for each in cassettes]
    assert [ratio for _, ratio in forced_ratios(forced)] == [(1.0, 4.0), (0.0, 2.0)]
    assert [ratio for _, ratio in forced_ratios(forced, itself)] == [(0.0, 2.0), (0.0, 2.0)]
    assert [ratio for _, ratio in forced_ratios(forced, itself[:1])] == [(0.0, 2.0), (0.0, 0.0)]


def generation(output: tuple[int, ...], **fields: object) -> GenerationRecord:
    values: dict[str, object] = {
        "event_id": "e",
        "seq": 0,
        "step": 0,
        "occurred_at": None,
        "model": "m",
        "weight_version": "v1",
        "policy_versions": (),
        "prompt_token_ids": (1, 2),
        "broken_prefix": None,
        "output_token_ids": output,
        "output_logprobs": (),
        "loss_mask": None,
        "temperature": 0.0,
        "top_p": None,
        "top_k": None,
        "min_p": None,
        "sampling_altered_by": (),
        "tokenizer_hash": None,
        "template_hash": None,
        "finish_reason": "stop",
        "token_fidelity": "exact",
        "context_intact": True,
        "training_eligible": True,
        "policy_id": "p",
        "policy_version": 1,
        "policy_hash": None,
        "kafka_partition": 0,
        "kafka_offset": 0,
    }
    return GenerationRecord(**{**values, **fields})  # type: ignore[arg-type]


def with_generations(*generations: GenerationRecord) -> Recording:
    made = recording()
    return replace(made, record=replace(made.record, generations=generations))


class TenthOfIndex:
    """A scorer whose log-probability of a token is a tenth of its place, negative."""

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return [-0.1 * np.arange(len(sequence), dtype=np.float64) for sequence in sequences]


def test_the_likelihood_is_the_sum_over_the_tokens_that_the_model_chose() -> None:
    made = with_generations(generation((5, 6)), generation((7, 8, 9), loss_mask=(1, 0, 1)))
    (likelihood,) = action_likelihoods([made], TenthOfIndex())
    assert likelihood.tokens == 4
    assert likelihood.nats == pytest.approx(-(0.2 + 0.3) - (0.2 + 0.4))


@pytest.mark.parametrize(
    ("changes", "exact"),
    [
        ({}, True),
        ({"token_fidelity": "context_changed"}, False),
        ({"prompt_token_ids": ()}, False),
        ({"output_token_ids": ()}, False),
        ({"broken_prefix": "unknown"}, False),
    ],
)
def test_ids_are_exact_only_when_every_generation_has_them(
    changes: dict[str, object], exact: bool
) -> None:
    made = with_generations(generation((5, 6)), generation((7,), **changes))
    assert has_exact_ids(made) is exact
    assert not has_exact_ids(recording())
