"""A trajectory becomes a recording only when it is complete."""

from collections.abc import Sequence

import pytest
from tests.unit.replay.cassette.conversations import (
    ORDER,
    RULES,
    Chat,
    calling,
    record,
    recording,
    reply,
    result,
    user,
)

from atdp.replay.cassette.recording import NotReplayable
from atdp.replay.cassette.recording_set import make_cassettes

FIND = calling(("find", {"item": "rope"}))
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}


def test_turns_hold_their_calls_their_results_and_what_came_before_them() -> None:
    made = recording()
    assert [[call.tool for call in turn.calls] for turn in made.turns] == [
        ["find", "price"],
        [],
        ["order"],
        ["find"],
        [],
    ]
    assert [[each["content"] for each in turn.given] for turn in made.turns] == [
        ["You sell ropes.", "two ropes please"],
        [],
        ["yes"],
        [],
        [],
    ]
    assert [each["content"] for each in made.turns[0].results] == ["in stock", "7"]
    assert [each["content"] for each in made.closing] == ["thanks"]


def test_a_greeting_is_no_turn_of_the_model() -> None:
    made = recording((reply("Hello, how can I help?"), user("a rope"), reply("Here.")))
    assert [turn.message.text for turn in made.turns] == ["Here."]
    assert len(made.turns[0].given) == 2


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((user("hello"),), "no_model_call"),
        ((user("hello"), FIND), "result_missing"),
        ((user("hello"), FIND, user("well?"), result("yes")), "result_without_call"),
        ((user("hello"), FIND, result("yes"), result("yes")), "result_without_call"),
        ((user("hello"), FIND, result("yes", 7)), "result_without_call"),
        ((user("hello"), reply("hi"), result("yes")), "result_without_call"),
        ((PICTURE, reply("a rope")), "content_not_text"),
    ],
)
def test_what_is_not_complete_is_refused_with_its_reason(
    messages: Sequence[Chat], reason: str
) -> None:
    with pytest.raises(NotReplayable) as refused:
        recording(messages)
    assert refused.value.reason == reason


def test_the_replay_class_is_enforced_and_an_unknown_one_is_refused() -> None:
    records = [
        record(name="a"),
        record(name="b", replay_class="approximate"),
        record(name="c", replay_class="non_replayable"),
        record(name="d", replay_class="unknown"),
    ]
    cassettes, refused = make_cassettes(records, RULES)
    assert [each.recording.key[1] for each in cassettes] == ["a", "b"]
    assert refused == {"governance_changed": 2}


def test_the_digest_of_a_cassette_depends_on_every_result() -> None:
    first, again, other = (
        make_cassettes([record(messages)], RULES)[0][0]
        for messages in (ORDER, ORDER, (*ORDER[:4], result("8", 1), *ORDER[5:]))
    )
    assert first.sha256 == again.sha256 != other.sha256
