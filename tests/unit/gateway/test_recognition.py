"""The recognition of conversations by their messages, over a real store."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from atdp.gateway.recognition.recognition_store import RecognitionStore
from atdp.gateway.recognition.recognizer import Recognizer
from atdp.gateway.recognition.shown_history import MessageDigests
from atdp.schemas import message_from_chat, messages_from_chat

from .recognised_chats import (
    GREETING,
    LONG,
    OPENED,
    OPENING,
    SYSTEM,
    Gateway,
    calls,
    open_conversation,
    result,
    says,
    user,
)


def test_a_conversation_goes_on_in_its_trajectory(gateway: Gateway) -> None:
    first = gateway.ask(OPENING, says(GREETING))
    second = gateway.ask([*OPENED, user("7?")], calls("c1"))
    third = gateway.ask([*OPENED, user("7?"), calls("c1"), result("c1", "sent")], says("Sent."))
    assert (first.rule, second.rule, third.rule) == ("opening", "extends", "extends")
    assert {first.trajectory_id, second.trajectory_id, third.trajectory_id} == {"one-0"}
    assert third.related_event == f"generation-{second.call}-0"


def test_conversations_that_begin_alike_never_mix(gateway: Gateway) -> None:
    opened = [gateway.ask(OPENING, says(GREETING)).trajectory_id for _ in range(50)]
    went_on = [
        gateway.ask([*OPENED, user(f"order {number}")], says("yes")).trajectory_id
        for number in range(50)
    ]
    again = [
        gateway.ask([*OPENED, user(f"order {number}"), says("yes"), user("ok")]).trajectory_id
        for number in reversed(range(50))
    ]
    assert len(set(opened)) == 50
    assert went_on == opened
    assert again == opened[::-1]


def test_a_client_may_echo_with_other_spaces_fields_and_argument_order(gateway: Gateway) -> None:
    arguments = '{"order": 7, "part": [1, 2]}'
    answer = {**calls("c1", arguments), "reasoning_content": "I look.", "refusal": None}
    trajectory = gateway.ask(OPENING, answer).trajectory_id
    echo = {**calls("c1", '{"part":[1,2],"order":7}'), "content": "", "annotations": []}
    recognised = gateway.ask(
        [{"role": "developer", "content": SYSTEM["content"] + " "}, user("hi"), echo,
         result("c1", "sent")], says("Sent.")
    )  # fmt: skip
    assert (recognised.trajectory_id, recognised.rule) == (trajectory, "extends")
    thought = gateway.ask([*OPENED, user("x")], says("<think>hm</think> yes"), scope="other")
    recognised = gateway.ask([*OPENED, user("x"), says("yes"), user("y")], scope="other")
    assert recognised.trajectory_id == thought.trajectory_id


def test_a_client_may_echo_in_another_normal_form(gateway: Gateway) -> None:
    composed, decomposed = "Gr\u00fc\u00dfe aus K\u00f6ln", "Gru\u0308\u00dfe aus Ko\u0308ln"
    trajectory = gateway.ask(OPENING, says(decomposed)).trajectory_id
    went_on = gateway.ask([*OPENING, says(composed), user("7?")], says("Sent."))
    assert (went_on.trajectory_id, went_on.rule) == (trajectory, "extends")


@pytest.mark.parametrize("part", ["id", "name", "arguments", "content"])
def test_a_message_that_differs_is_another_history(gateway: Gateway, part: str) -> None:
    digests = gateway.recognizer.digests
    answer = calls("c1")
    other = {
        "id": calls("c2"),
        "name": calls("c1", name="find"),
        "arguments": calls("c1", '{"order": 8}'),
        "content": {**answer, "content": "I look."},
    }[part]
    assert digests.message(message_from_chat(answer)) != digests.message(message_from_chat(other))


def test_a_client_may_shorten_call_ids_and_keep_a_message_at_the_end(gateway: Gateway) -> None:
    notes = user("Internal context, not written by the user: the time is noon.")
    chat = [SYSTEM, user(LONG)]
    begun = gateway.ask([*chat, notes], calls("call_1_a"))
    for number in range(1, 4):
        chat += [
            calls(f"call{number}a"),
            result(f"call{number}a", f"parcel {number} is on its way"),
        ]
        asked = gateway.ask([*chat, notes], calls(f"call_{number + 1}_a"))
        assert asked.trajectory_id == begun.trajectory_id


def test_an_edited_message_stays_in_the_trajectory_from_a_new_base(gateway: Gateway) -> None:
    trajectory = open_conversation(gateway, user(LONG), calls("c1"), result("c1", "?"), says("Hm."))
    chat = [*OPENED, user(LONG), calls("c1"), result("c1", "lost")]
    edited = gateway.ask(chat, says("It is lost."))
    assert (edited.trajectory_id, edited.rule) == (trajectory, "edited")
    assert edited.gap == "history_edited"
    went_on = gateway.ask([*chat, says("It is lost."), user("oh")], says("Sorry."))
    assert (went_on.trajectory_id, went_on.rule) == (trajectory, "extends")


def test_an_edit_behind_a_common_beginning_is_not_guessed(gateway: Gateway) -> None:
    known = {open_conversation(gateway, user(f"order {n}"), says("yes")) for n in range(2)}
    recognised = gateway.ask([*OPENED, user("order 2")], says("yes"))
    assert recognised.trajectory_id not in known


def test_a_compacted_history_stays_in_its_trajectory(gateway: Gateway) -> None:
    steps = [(calls(f"c{n}") if n % 2 else result(f"c{n - 1}", f"part {n}")) for n in range(1, 7)]
    first = open_conversation(gateway, user(LONG), steps[0])
    other = open_conversation(gateway, user(LONG), calls("d1"))
    chat = [*OPENED, user(LONG), steps[0]]
    for shown, answer in ((steps[1], steps[2]), (steps[3], steps[4])):
        chat.append(shown)
        assert gateway.ask(chat, answer).trajectory_id == first
        chat.append(answer)
    compacted = [SYSTEM, user("Summary: " + LONG), *chat[-3:], steps[5]]
    recognised = gateway.ask(compacted, says("Done."))
    assert (recognised.trajectory_id, recognised.rule) == (first, "compacted")
    assert recognised.gap == "history_compacted"
    went_on = gateway.ask([*compacted, says("Done."), user("bye")], says("Bye."))
    assert (went_on.trajectory_id, went_on.rule) == (first, "extends")
    assert gateway.ask([*OPENED, user(LONG), calls("d1"), result("d1", "x")]).trajectory_id == other


def test_a_history_of_two_conversations_is_a_new_trajectory(gateway: Gateway) -> None:
    first = open_conversation(gateway, user(LONG), calls("c1"), result("c1", "a"), calls("c2"))
    second = open_conversation(gateway, user(LONG), calls("d1"), result("d1", "b"), calls("d2"))
    mixed = [SYSTEM, calls("c1"), result("c1", "a"), calls("d2"), result("d2", "c")]
    recognised = gateway.ask(mixed, says("?"))
    assert recognised.trajectory_id not in (first, second)
    assert recognised.rule == "unknown_history"


def test_a_cut_history_does_not_fall_to_a_conversation_that_is_ahead(gateway: Gateway) -> None:
    """Jobs that send the same prompts and get short answers, one of them further on."""
    prompts = [
        f"Step {n}: read the next page of the report, and say if it is ok." for n in range(5)
    ]

    def run(*answers: str) -> tuple[str, list[dict[str, Any]]]:
        chat, trajectories = [SYSTEM], set()
        for prompt, answer in zip(prompts, answers, strict=False):
            chat.append(user(prompt))
            trajectories.add(gateway.ask(chat, says(answer)).trajectory_id)
            chat.append(says(answer))
        (trajectory,) = trajectories
        return trajectory, chat

    ahead, _ = run("ok", "ok", "ok", "ok", "ok")
    _, chat = run("ok", "ok", "not ok")
    cut = gateway.ask([SYSTEM, *chat[3:], user(prompts[3])], says("ok"))
    assert cut.trajectory_id != ahead
    assert cut.rule == "unknown_history"


def test_examples_in_a_first_request_do_not_tie_conversations(gateway: Gateway) -> None:
    examples = [SYSTEM, user(LONG), says("A long example of an answer that all conversations show")]
    opened = [
        gateway.ask([*examples, user(f"Where is order {number} that I am waiting for? " + LONG)],
                    says("sent")).trajectory_id
        for number in (1, 2, 2)
    ]  # fmt: skip
    assert len(set(opened)) == 3


def test_a_history_cut_in_the_middle_does_not_fall_to_a_fresh_twin(gateway: Gateway) -> None:
    long_one = open_conversation(
        gateway, user(LONG), calls("c1"), result("c1", "a"), calls("c2"), result("c2", "b"),
        calls("c3"),
    )  # fmt: skip
    twin = gateway.ask(OPENING, says(GREETING)).trajectory_id
    cut = [*OPENED, calls("c2"), result("c2", "b"), calls("c3"), result("c3", "c")]
    recognised = gateway.ask(cut, says("Done."))
    assert recognised.trajectory_id == long_one
    assert twin != long_one


def test_the_same_request_for_ever_costs_no_more_with_time(gateway: Gateway) -> None:
    for _ in range(600):
        gateway.ask(OPENING, says(GREETING))
    digests = gateway.recognizer.digests
    scope = digests.of_values("acme")
    history = digests.history(scope, [*map(digests.facts, messages_from_chat(OPENING))])
    assert len(gateway.store.with_request(scope, history.request)) == 256
    assert gateway.ask([*OPENED, user("7?")], says("Sent.")).trajectory_id == "one-0"


def test_scopes_have_nothing_in_common(gateway: Gateway) -> None:
    first = open_conversation(gateway, user(LONG), calls("c1"))
    chat = [*OPENED, user(LONG), calls("c1"), result("c1", "a")]
    other = gateway.ask(chat, says("?"), scope="other")
    assert other.trajectory_id != first
    assert gateway.ask(chat, says("?")).trajectory_id == first


def test_a_sub_agent_is_spawned_by_the_tool_call_with_its_task(gateway: Gateway) -> None:
    task = "Find out which carrier lost the lamp.\nWrite one sentence."
    ask = calls(
        "c1", '{"agent": "tracer", "task": "' + task.replace("\n", "\\n") + '"}', "delegate"
    )
    parent = open_conversation(gateway, user(LONG), ask)
    child = gateway.ask([{"role": "system", "content": "You trace."}, user(task)], says("DHL."))
    assert (child.rule, child.related_trajectory) == ("tool_argument", parent)
    assert child.related_event == "tool-c1"
    assert child.trajectory_id != parent
    back = gateway.ask([*OPENED, user(LONG), ask, result("c1", "DHL.")], says("DHL lost it."))
    assert back.trajectory_id == parent
    late = gateway.ask([{"role": "system", "content": "You trace."}, user(task)], says("DHL."))
    assert late.rule == "opening"


def test_a_named_response_is_gone_on_from(gateway: Gateway) -> None:
    first = gateway.ask(OPENING, says(GREETING))
    gateway.ask(OPENING, says(GREETING))
    named = gateway.ask(
        [SYSTEM, user("other words")], says("!"), previous_response=f"response-{first.call}"
    )
    assert (named.trajectory_id, named.rule) == (first.trajectory_id, "response_id")


def test_a_repeated_request_that_names_a_response_is_a_retry(gateway: Gateway) -> None:
    first = gateway.ask(OPENING, says(GREETING))
    named = {"previous_response": f"response-{first.call}"}
    failed = gateway.ask([user("and order 7?")], **named)
    again = gateway.ask([user("and order 7?")], says("yes"), is_retry=True, **named)
    assert [failed.rule, again.rule] == ["response_id", "retry"]
    assert again.related_event == f"gap-{failed.call}"
    goes_on = {"previous_response": f"response-{again.call}", "is_retry": True}
    assert gateway.ask([user("and order 7?")], says("no"), **goes_on).rule == "response_id"


def test_a_history_of_many_messages_stores_few_of_them(gateway: Gateway) -> None:
    gateway.ask(OPENING, says(GREETING))
    many = [user(f"{LONG} ({number})") for number in range(1_000)]
    assert gateway.ask([*OPENED, *many], says("ok")).rule == "extends"
    digests = [gateway.recognizer.digests.message(message_from_chat(each)) for each in many]
    scope = gateway.recognizer.digests.of_values("acme")
    assert len(gateway.store.with_marks(scope, digests)) == 256


def test_two_gateways_share_what_they_know(tmp_path: Path) -> None:
    path = tmp_path / "recognition.sqlite"
    one, two = Gateway(path), Gateway(path, "two")
    with closing(one.store), closing(two.store):
        opened = [each.ask(OPENING, says(GREETING)).trajectory_id for each in (one, two, one)]
        went_on = [
            each.ask([*OPENED, user(f"order {number}")], says("yes"))
            for number, each in enumerate((two, one, two))
        ]
        assert [each.trajectory_id for each in went_on] == opened
        last = two.ask([*OPENED, user("order 2"), says("yes"), user("ok")], says("!"))
        assert (last.trajectory_id, last.answers_before) == (opened[2], 2)


def test_a_call_that_a_dead_gateway_never_answered_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "recognition.sqlite"
    one, two = Gateway(path), Gateway(path, "two")
    with closing(one.store), closing(two.store):
        trajectory = open_conversation(one)
        one.begin([*OPENED, user("7?")])
        again = two.ask([*OPENED, user("7?")], says("Sent."))
        assert (again.trajectory_id, again.rule) == (trajectory, "retry")


@pytest.mark.parametrize(
    "arguments",
    ["[" * 2_000, '{"a": ' * 300 + "1" + "}" * 300, str(10**400), '{"a": 1e999}', "\ud800", "\x00"],
)
def test_hostile_arguments_are_a_history_like_any_other(gateway: Gateway, arguments: str) -> None:
    answer = message_from_chat(calls("c1", arguments))
    digests = gateway.recognizer.digests
    assert digests.message(answer) == digests.message(message_from_chat(calls("c1", arguments)))
    assert digests.message(answer) != digests.message(message_from_chat(calls("c1", "x")))
    trajectory = gateway.ask(OPENING, calls("c1", arguments)).trajectory_id
    went_on = gateway.ask([*OPENING, calls("c1", arguments), result("c1", "x" * 100_000)])
    assert went_on.trajectory_id == trajectory


def test_a_text_cannot_pass_for_another_message(gateway: Gateway) -> None:
    digests = gateway.recognizer.digests
    forged = [says("a', [], None, [])"), user("a"), says("a"), result("a", ""), calls("a", "")]
    assert len({digests.message(message_from_chat(each)) for each in forged}) == len(forged)


def test_another_secret_gives_other_digests() -> None:
    message = message_from_chat(user(LONG))
    one, two = (MessageDigests(secret * 32).message(message) for secret in (b"a", b"b"))
    assert one != two


def test_old_calls_are_pruned(tmp_path: Path) -> None:
    store = RecognitionStore(tmp_path / "recognition.sqlite", "one", max_calls=50)
    with closing(store):
        here = Gateway(tmp_path / "recognition.sqlite")
        here.recognizer = Recognizer(store, here.recognizer.digests, pending_s=60)
        first = here.ask(OPENING, says(LONG)).trajectory_id
        for number in range(1_000):
            here.ask([SYSTEM, user(f"{number} {LONG}")], says("yes"))
        went_on = here.ask([*OPENING, says(LONG), user("7?")], says("!"))
        here.store.close()
    assert went_on.trajectory_id != first
