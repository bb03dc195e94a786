"""Requests that are made again: retries, and further samples of one decision."""

from .recognised_chats import (
    GREETING,
    OPENED,
    OPENING,
    Gateway,
    open_conversation,
    says,
    user,
)


def test_a_failed_call_that_is_made_again_is_a_retry(gateway: Gateway) -> None:
    trajectory = open_conversation(gateway)
    failed = gateway.ask([*OPENED, user("7?")])
    again = gateway.ask([*OPENED, user("7?")], says("Sent."))
    assert (again.trajectory_id, again.rule) == (trajectory, "retry")
    assert again.related_event == f"gap-{failed.call}"


def test_a_retry_does_not_fall_to_a_conversation_in_the_same_state(gateway: Gateway) -> None:
    trajectory, _ = (gateway.ask(OPENING, says(GREETING)).trajectory_id for _ in range(2))
    gateway.ask([*OPENED, user("7?")])
    again = gateway.ask([*OPENED, user("7?")], says("Sent."))
    assert (again.trajectory_id, again.rule) == (trajectory, "retry")
    twin = gateway.ask([*OPENED, user("7?")], says("Sent."))
    assert twin.trajectory_id != trajectory


def test_an_answered_request_that_is_made_again_is_another_sample(gateway: Gateway) -> None:
    trajectory = open_conversation(gateway)
    asked = [*OPENED, user("7?")]
    first = gateway.ask(asked, says("Sent."))
    second = gateway.ask(asked, says("It was sent."))
    assert (second.trajectory_id, second.rule) == (trajectory, "sample")
    assert second.related_event == f"generation-{first.call}-0"
    went_on = gateway.ask([*asked, says("Sent."), user("thanks")], says("!"))
    assert (went_on.trajectory_id, went_on.rule, went_on.gap) == (trajectory, "extends", None)
    other = gateway.ask([*asked, says("It was sent."), user("thanks")], says("!"))
    assert (other.trajectory_id, other.rule, other.gap) == (trajectory, "extends", None)


def test_several_choices_of_one_answer_are_states_of_one_trajectory(gateway: Gateway) -> None:
    trajectory = gateway.ask(OPENING, says("a"), says("b"), says("c")).trajectory_id
    for text in ("c", "a", "b"):
        went_on = gateway.ask([*OPENING, says(text), user(text)], says("!"))
        assert (went_on.trajectory_id, went_on.rule) == (trajectory, "extends")


def test_a_marked_retry_of_an_opening_stays_in_its_trajectory(gateway: Gateway) -> None:
    unmarked = [gateway.ask(OPENING).trajectory_id for _ in range(2)]
    assert len(set(unmarked)) == 2
    marked = gateway.ask(OPENING, says(GREETING), is_retry=True)
    assert (marked.trajectory_id in unmarked, marked.rule) == (True, "retry")
    went_on = gateway.ask([*OPENED, user("7?")], says("Sent."))
    assert went_on.trajectory_id == marked.trajectory_id


def test_marked_openings_whose_first_attempt_never_arrived_do_not_mix(gateway: Gateway) -> None:
    answered = gateway.ask(OPENING, says(GREETING)).trajectory_id
    on_its_way = gateway.begin(OPENING, is_retry=True)[1].trajectory_id
    third = gateway.ask(OPENING, says(GREETING), is_retry=True).trajectory_id
    assert len({answered, on_its_way, third}) == 3


def test_each_failed_opening_is_repeated_in_its_own_trajectory(gateway: Gateway) -> None:
    failed = {gateway.ask(OPENING).trajectory_id for _ in range(20)}
    repeated = {gateway.begin(OPENING, is_retry=True)[1].trajectory_id for _ in range(20)}
    assert repeated == failed


def test_each_failed_call_of_conversations_in_one_state_is_repeated_in_its_own(
    gateway: Gateway,
) -> None:
    trajectories = {gateway.ask(OPENING, says(GREETING)).trajectory_id for _ in range(20)}
    begun = [gateway.begin([*OPENED, user("7?")])[1] for _ in range(20)]
    for call in begun:
        gateway.recognizer.failed(call, None)
    again = [gateway.begin([*OPENED, user("7?")])[1] for _ in range(20)]
    assert {call.rule for call in again} == {"retry"}
    assert {call.trajectory_id for call in begun} == trajectories
    assert {call.trajectory_id for call in again} == trajectories


def test_an_opening_that_took_longer_than_its_client_waits_is_repeated(gateway: Gateway) -> None:
    trajectory = gateway.begin(OPENING)[1].trajectory_id
    early = gateway.ask(OPENING, says(GREETING), is_retry=True, waits_s=5.0)
    for _ in range(5):
        next(gateway.clock)
    late = gateway.ask(OPENING, says(GREETING), is_retry=True, waits_s=5.0)
    assert early.trajectory_id != trajectory
    assert late.trajectory_id == trajectory


def test_an_old_call_is_not_repeated_by_a_mark(gateway: Gateway) -> None:
    old = gateway.ask(OPENING).trajectory_id
    for _ in range(120):
        next(gateway.clock)
    assert gateway.ask(OPENING, is_retry=True).trajectory_id != old


def test_an_idempotency_key_names_the_call_that_is_repeated(gateway: Gateway) -> None:
    trajectories = [
        gateway.ask(OPENING, says(GREETING), idempotency_key=f"key-{number}").trajectory_id
        for number in range(3)
    ]
    again = gateway.ask(OPENING, says(GREETING), idempotency_key="key-1")
    assert (again.trajectory_id, again.rule) == (trajectories[1], "retry")
