"""Calls are answered from the recording as far as its state is the recorded one."""

import pytest
from tests.unit.replay.cassette.conversations import (
    ORDER,
    RULES,
    call,
    calling,
    cassette,
    reply,
    result,
    user,
)

from atdp.replay.cassette.cassette_settings import Divergence
from atdp.replay.cassette.player import Player

FIND, PRICE = call("find", item="rope"), call("price", item="rope")
BUY = call("order", item="rope", count=2)


def played(policy: Divergence = "stop_score_prefix", **fields: object) -> Player:
    return Player(cassette=cassette(), policy=policy, **fields)  # type: ignore[arg-type]


def outcome(player: Player, *calls: object) -> list[str]:
    return [player.call(RULES.canonical("acme", each)).outcome for each in calls]  # type: ignore[arg-type]


def texts(player: Player, *calls: object) -> list[str | None]:
    answers = [player.call(RULES.canonical("acme", each)) for each in calls]  # type: ignore[arg-type]
    return [None if answer.result is None else answer.result["content"] for answer in answers]


def test_reads_are_answered_in_any_order_and_as_often_as_asked() -> None:
    assert texts(played(), PRICE, FIND, PRICE, FIND) == ["7", "in stock", "7", "in stock"]


def test_a_write_changes_the_state_and_with_it_the_results_of_reads() -> None:
    assert texts(played(), FIND, BUY, FIND, PRICE) == ["in stock", "ordered", "sold out", None]


def test_a_write_is_answered_only_in_its_recorded_state() -> None:
    assert outcome(played(), BUY, BUY) == ["hit", "miss"]
    assert outcome(played(), call("order", item="rope", count=3)) == ["miss"]


def test_a_call_that_was_recorded_with_two_results_gives_them_in_order_and_no_third() -> None:
    talk = (
        user("?"),
        calling(("find", {})),
        result("a"),
        calling(("find", {})),
        result("b"),
        reply("."),
    )
    player = Player(cassette=cassette(talk), policy="stop_score_prefix")
    assert texts(player, call("find"), call("find"), call("find")) == ["a", "b", None]


def test_a_reply_is_answered_with_the_recorded_turn_of_the_user_in_the_recorded_state() -> None:
    player = played()
    answer = player.reply()
    assert (answer.outcome, [each["content"] for each in answer.given]) == ("hit", ["yes"])
    assert player.reply().outcome == "miss"  # the recorded agent had ordered before it replied
    assert outcome(player, BUY) == ["hit"]
    last = player.reply()
    assert (last.outcome, [each["content"] for each in last.given]) == ("hit", ["thanks"])
    assert player.ended
    assert player.reply().outcome == "miss"


def test_normalised_takes_another_spelling_and_says_so() -> None:
    from tests.unit.replay.cassette.conversations import record

    from atdp.replay.cassette.cassette import make_cassette
    from atdp.replay.cassette.recording import recording_of
    from atdp.replay.cassette.tool_rules import ToolRule, ToolRules

    rule = ToolRule(effect="read", arguments={"item": ("strip", "lower")})
    rules = ToolRules(rules={"find": rule, "price": rule})
    made = make_cassette(recording_of(record(), rules, ()))
    spelt = rules.canonical("acme", call("find", item=" ROPE"))
    outcomes = {
        policy: Player(cassette=made, policy=policy).call(spelt).outcome
        for policy in ("stop_score_prefix", "fail", "normalised")
    }
    assert outcomes == {"stop_score_prefix": "miss", "fail": "miss", "normalised": "normalised"}


def test_pooled_takes_the_same_call_in_the_same_state_of_another_recording() -> None:
    lamp = calling(("find", {"item": "lamp"}))
    bought = calling(("order", {"item": "rope", "count": 2}))
    before = cassette((user("?"), lamp, result("one lamp"), reply(".")), name="t-1")
    after = cassette(
        (user("?"), bought, result("ordered"), lamp, result("no lamp"), reply(".")), name="t-2"
    )
    ask = call("find", item="lamp")
    player = played("pooled_exact", pool=(before, after))
    assert texts(player, ask, BUY, ask) == ["one lamp", "ordered", "no lamp"]
    assert outcome(played("pooled_exact", pool=(before, after)), ask, BUY) == ["pooled", "hit"]
    assert outcome(played(pool=(before, after)), ask) == ["miss"]


@pytest.mark.parametrize(("tool", "expected"), [("find", "simulated"), ("order", "miss")])
def test_nearest_answers_reads_and_never_writes(tool: str, expected: str) -> None:
    assert outcome(played("nearest"), call(tool, item="ropes", count=2)) == [expected]


def test_nothing_is_given_twice() -> None:
    talk = (user("?"), calling(("find", {})), result("a"), user("hurry"), reply("."), user("ok"))
    player = Player(cassette=cassette(talk), policy="stop_score_prefix")
    answers = [player.call(RULES.canonical("acme", call("find"))) for _ in range(2)]
    assert [len(answer.given) for answer in answers] == [1, 0]


def test_a_recording_of_another_tenant_is_in_no_pool() -> None:
    from atdp.replay.cassette.self_agreement import pools

    ours, theirs, other = (
        cassette(ORDER, name="a"),
        cassette(ORDER, name="b", tenant="globex"),
        cassette(ORDER, name="c"),
    )
    found = pools([ours, theirs, other])
    assert found[ours.recording.key] == (other,)
    assert found[theirs.recording.key] == ()
