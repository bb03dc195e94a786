"""A recorded agent follows its own recording to the end; another one as far as it is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.unit.replay.cassette.conversations import (
    ORDER,
    RULES,
    Chat,
    calling,
    cassette,
    recording,
    reply,
    result,
    user,
)

from atdp.replay.cassette.agent import RecordedAgent
from atdp.replay.cassette.cassette_settings import CassetteSettings, Divergence, RewardBasis
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.hermetic_run import (
    REPLY,
    ReplayedTrajectory,
    ReplayTools,
    replay_recording,
)
from atdp.replay.cassette.replay_measures import coverage_curve, outcomes_by_tool, summarise_rewards
from atdp.replay.cassette.self_agreement import pools, replay_against_itself, same_agent_pairs
from atdp.replay.errors import TurnRefused
from atdp.schemas import Message, messages_from_chat

FIND, BUY = ("find", {"item": "rope"}), ("order", {"item": "rope", "count": 2})
PRICE, LAMP = ("price", {"item": "rope"}), ("find", {"item": "lamp"})


@dataclass(slots=True)
class Script:
    """An agent that says what is written, and keeps what it was shown."""

    turns: list[Chat]
    shown: list[Sequence[Chat]] = field(default_factory=list)
    offered: list[Sequence[Chat]] = field(default_factory=list)

    def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message | None:
        self.shown.append(messages)
        self.offered.append(tools)
        return messages_from_chat([self.turns.pop(0)])[0] if self.turns else None


def tools(
    divergence: Divergence = "stop_score_prefix",
    basis: RewardBasis = "actions",
    changes: Counterfactual | None = None,
) -> ReplayTools:
    settings = CassetteSettings(divergence=divergence, reward_depends_on=basis)
    return ReplayTools(settings=settings, rules=RULES, changes=changes or Counterfactual())


def run(
    *turns: Chat, divergence: Divergence = "stop_score_prefix", basis: RewardBasis = "actions"
) -> ReplayedTrajectory:
    return replay_recording(cassette(), Script(list(turns)), tools(divergence, basis))


AGAIN = (
    calling(FIND, PRICE),
    reply("That is 14. Shall I order?"),
    calling(BUY),
    calling(FIND),
    reply("Done."),
)


def test_a_recorded_agent_hits_everything_on_its_own_cassette_twice_with_equal_answers() -> None:
    first, second = (
        replay_recording(cassette(), RecordedAgent(recording()), tools()) for _ in range(2)
    )
    assert first == second
    assert first.status == "completed"
    assert {outcome for step in first.steps for outcome in step.outcomes} == {"hit"}
    assert all(step.agrees for step in first.steps)
    assert first.reward == first.recorded_reward == 1.0
    assert first.first_divergence is None


def test_the_agent_is_shown_what_was_recorded_with_its_own_calls() -> None:
    script = Script(list(AGAIN))
    assert replay_recording(cassette(), script, tools()).status == "completed"
    roles = [message["role"] for message in script.shown[-1]]
    assert roles == [message["role"] for message in ORDER[:-2]]
    ids = [message["tool_call_id"] for message in script.shown[-1] if message["role"] == "tool"]
    assert ids == ["call_0", "call_1", "call_2", "call_3"]
    assert script.shown[-1][3]["content"] == "in stock"


def test_a_replay_ends_at_the_first_call_that_was_not_recorded() -> None:
    ended = run(calling(FIND), calling(PRICE, LAMP, FIND), reply("never asked"))
    assert ended.status == "diverged"
    assert ended.first_divergence == 2
    assert ended.steps[-1].outcomes == ("hit", "miss")
    assert ended.reward is None
    assert [step.agrees for step in ended.steps] == [False, None]


def test_an_agent_that_orders_before_it_asks_leaves_the_recording_at_its_question() -> None:
    ended = run(calling(FIND, PRICE), calling(BUY), reply("I have ordered."))
    assert (ended.status, ended.first_divergence) == ("diverged", 3)
    assert ended.steps[-1].tools == (REPLY,)


def test_an_agent_that_never_orders_does_not_complete() -> None:
    assert run(reply("14?"), reply("no")).status == "diverged"


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (AGAIN, {"actions": 1.0, "calls": 1.0, "writes": 1.0}),
        ((*AGAIN[:-1], reply("Ordered!")), {"actions": None, "calls": 1.0, "writes": 1.0}),
        (
            (calling(PRICE, FIND), *AGAIN[1:]),
            {"actions": None, "calls": None, "writes": 1.0},
        ),
        (AGAIN[:3], {"actions": None, "calls": None, "writes": None}),
    ],
)
def test_the_recorded_reward_holds_only_for_what_it_depends_on(
    turns: Sequence[Chat], expected: dict[RewardBasis, float | None]
) -> None:
    assert {basis: run(*turns, basis=basis).reward for basis in expected} == expected


def test_an_agent_in_a_loop_is_stopped() -> None:
    stopped = run(*[calling(FIND)] * 99)
    assert stopped.status == "out_of_steps"
    assert len(stopped.steps) == 2 * len(recording().turns) + 2


def test_nothing_counts_after_a_simulated_answer() -> None:
    simulated = run(calling(LAMP), *AGAIN, divergence="nearest")
    assert simulated.status == "simulated"
    assert simulated.reward is None
    assert simulated.first_divergence == 1
    curve = coverage_curve([simulated])
    assert [(step.reached, step.covered) for step in curve] == [(1, 0)]
    assert outcomes_by_tool([simulated])["find"]["simulated"] == 1
    assert outcomes_by_tool([simulated])["find"]["hit"] == 0


def test_a_conversation_that_the_engine_does_not_take_is_counted_as_such() -> None:
    class Small:
        def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message:
            raise TurnRefused("too long")

    refused = replay_recording(cassette(), Small(), tools())
    assert (refused.status, refused.steps, refused.reward) == ("refused_by_engine", (), None)


def test_another_system_prompt_and_other_tools_are_shown_in_place_of_the_recorded_ones() -> None:
    offered = ({"type": "function", "function": {"name": "find"}},)
    changes = Counterfactual(system_prompt="Be brief.", tools=offered)
    script = Script(list(AGAIN))
    assert replay_recording(cassette(), script, tools(changes=changes)).status == "completed"
    assert [shown[0]["content"] for shown in script.shown] == ["Be brief."] * 5
    assert {len(shown) for shown in script.shown} == {2, 5, 7, 9, 11}
    assert script.offered[0] == offered
    bare = cassette(ORDER[1:])
    script = Script(list(AGAIN))
    replay_recording(bare, script, tools(changes=changes))
    assert [each["role"] for each in script.shown[0]] == ["system", "user"]


def test_coverage_falls_with_each_divergence_and_only_counts_replays_that_got_there() -> None:
    runs = [run(*AGAIN), run(calling(LAMP)), run(calling(FIND, PRICE), reply("?"), calling(LAMP))]
    assert [(step.reached, step.covered) for step in coverage_curve(runs)] == [
        (3, 2),
        (2, 2),
        (2, 1),
        (1, 1),
        (1, 1),
    ]
    assert coverage_curve(runs)[-1].surviving == pytest.approx(1 / 3)
    rewards = summarise_rewards(runs)
    assert (rewards.rewarded, rewards.mean, rewards.recorded) == (1, 1.0, 3)


def test_the_recorded_agent_is_compared_with_itself_on_another_recording_of_the_task() -> None:
    short = (user("two ropes please"), calling(FIND), result("in stock"), reply("14?"))
    cassettes = [
        cassette(name="a"),
        cassette(short, name="b"),
        cassette(name="c"),
        cassette(name="d", task="alone"),
        cassette(name="e", task=None),
    ]
    pairs = [(made.recording.key[1], other.key[1]) for made, other in same_agent_pairs(cassettes)]
    assert pairs == [("a", "c"), ("b", "a"), ("c", "b")]
    itself = replay_against_itself(cassettes, tools(), pools(cassettes))
    assert [each.status for each in itself] == ["completed", "diverged", "out_of_turns"]
    assert [each.steps[0].agrees for each in itself] == [True, False, False]


def test_a_pool_never_answers_with_the_recording_that_is_played() -> None:
    lamp = (user("two ropes please"), calling(LAMP), result("one"), reply("."))
    cassettes = [cassette(name="a"), cassette(lamp, name="b")]
    itself = replay_against_itself(cassettes, tools("pooled_exact"), pools(cassettes))
    assert [each.status for each in itself] == ["diverged", "diverged"]
