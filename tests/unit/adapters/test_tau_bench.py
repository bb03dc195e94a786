"""Reading tau-bench files: trajectories and their events."""

import json
from pathlib import Path

from atdp.adapters import (
    IMPORTERS,
    ImportedTrajectory,
    make_events,
)
from atdp.schemas import (
    Action,
    EventId,
    Outcome,
    Reward,
    TrajectoryEnded,
    TrajectoryStarted,
    encode,
    fold_context,
)

from .tau_files import FILE, read


def test_every_message_is_contributed_by_exactly_one_event() -> None:
    rows = json.loads(FILE.read_text("utf-8"))
    for row, trajectory in zip(rows, read(), strict=True):
        context = fold_context(make_events(trajectory, "acme"))
        assert [message.role for message in context] == [chat["role"] for chat in row["traj"]]
        texts = [chat["content"] or "" for chat in row["traj"]]
        assert [message.text for message in context] == texts


def test_an_empty_and_a_null_content_stay_different(tmp_path: Path) -> None:
    chats = [{"role": "assistant", "content": content} for content in ("", None, "text")]
    file = tmp_path / "run.json"
    file.write_text(json.dumps([{"task_id": 1, "reward": 1.0, "traj": chats}]))
    (trajectory,) = IMPORTERS["tau-bench"].read(file)
    assert isinstance(trajectory, ImportedTrajectory)
    context = fold_context(make_events(trajectory, "acme"))
    assert [[part.text for part in message.parts] for message in context] == [[""], [], ["text"]]


def test_tool_calls_are_actions_with_raw_and_parsed_arguments() -> None:
    bodies = [event.body for event in make_events(read()[0], "acme")]
    calls = [
        body.tool_call for body in bodies if isinstance(body, Action) and body.tool_call is not None
    ]
    assert [(call.name, call.arguments, call.arguments_json) for call in calls] == [
        ("find_loan", '{"loan_id": "L1"}', '{"loan_id":"L1"}'),
        ("extend_loan", '{"loan_id": "L1"', None),
    ]


def test_outcomes_point_at_the_calls_they_answer() -> None:
    events = make_events(read()[0], "acme")
    by_id = {event.event_id: event for event in events}
    for event in events:
        if isinstance(event.body, Outcome):
            (cause,) = event.caused_by
            asked = by_id[EventId(cause)]
            assert isinstance(asked.body, Action)
            assert asked.body.tool_call is not None
            assert asked.body.tool_call.call_id == event.body.call_id
            assert asked.step == event.step


def test_the_rest_of_a_row_is_stored_whole_with_the_start() -> None:
    rows = json.loads(FILE.read_text("utf-8"))
    start = make_events(read()[0], "acme")[0]
    assert isinstance(start.body, TrajectoryStarted)
    assert start.body.task == "You are Ada and want loan L1 extended."
    assert json.loads(start.ext_json or "") == {
        key: value for key, value in rows[0].items() if key != "traj"
    }


def test_a_reward_of_zero_is_a_reward_and_a_missing_one_is_none() -> None:
    rewards = [
        [
            event.body.value
            for event in make_events(trajectory, "acme")
            if isinstance(event.body, Reward)
        ]
        for trajectory in read()
    ]
    assert rewards == [[1.0], [0.0], [0.0], []]


def test_the_ends_of_trajectories_are_distinguished() -> None:
    ends = [make_events(trajectory, "acme")[-1].body for trajectory in read()]
    assert all(isinstance(end, TrajectoryEnded) for end in ends)
    assert [end.status for end in ends if isinstance(end, TrajectoryEnded)] == [
        *("completed", "truncated", "failed", "completed"),
    ]
    assert isinstance(ends[2], TrajectoryEnded)
    assert ends[2].error is not None
    assert ends[2].error.message == "('Connection aborted.',)"


def test_the_same_task_is_the_same_group_and_counts_its_attempts() -> None:
    assert [(trajectory.task_id, trajectory.attempt) for trajectory in read()] == [
        ("tau-bench/library/0", 0),
        ("tau-bench/library/1", 0),
        ("tau-bench/library/2", 0),
        ("tau-bench/library/0", 1),
    ]


def test_importing_again_gives_the_same_events_and_another_tenant_gives_others(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "elsewhere" / FILE.name
    copy.parent.mkdir()
    copy.write_bytes(FILE.read_bytes())
    first = [encode(event) for trajectory in read() for event in make_events(trajectory, "acme")]
    again = [
        encode(event) for trajectory in read(copy) for event in make_events(trajectory, "acme")
    ]
    other = [event.event_id for trajectory in read() for event in make_events(trajectory, "other")]
    assert first == again
    assert len(
        set(other) | {event.event_id for t in read() for event in make_events(t, "acme")}
    ) == 2 * len(first)


def test_seq_is_gapless_and_no_time_is_invented() -> None:
    for trajectory in read():
        events = make_events(trajectory, "acme")
        assert [event.seq for event in events] == list(range(len(events)))
        assert {event.occurred_at for event in events} == {None}
        rewards = [event.body for event in events if isinstance(event.body, Reward)]
        assert {reward.observed_at for reward in rewards} <= {None}
        assert len({event.trajectory_id for event in events}) == 1
