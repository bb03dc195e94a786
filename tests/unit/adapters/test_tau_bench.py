"""The tau-bench importer, on a made-up file, and on the real ones where they are at hand."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from atdp.adapters import (
    IMPORTERS,
    ImportedTrajectory,
    ImportFailed,
    ImportOptions,
    ImportReport,
    UnreadableEntry,
    make_events,
    run_import,
)
from atdp.runtime.keys import ApiKey
from atdp.schemas import (
    Action,
    Event,
    EventId,
    Outcome,
    Reward,
    TrajectoryEnded,
    TrajectoryStarted,
    contributed_messages,
    encode,
    fold_context,
)
from atdp.sdk import MemorySender, Recorder

FILE = Path(__file__).parent / "fixtures" / "tau_library.json"
DRY_RUN = ImportOptions(dry_run=True)
REAL = Path(__file__).parents[4] / "shared" / "data" / "tau_bench_retail"


def read(path: Path = FILE) -> list[ImportedTrajectory]:
    entries = list(IMPORTERS["tau-bench"].read(path))
    trajectories = [entry for entry in entries if isinstance(entry, ImportedTrajectory)]
    assert trajectories == entries
    return trajectories


def written(folder: Path, rows: object) -> Path:
    path = folder / "run.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), "utf-8")
    return path


class KeepingRecorder:
    """A recorder that keeps its events."""

    delivered = 0
    complete = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.redelivery: set[bool] = set()

    def emit_event(self, event: Event, *, redelivery: bool = False) -> EventId:
        self.events.append(event)
        self.redelivery.add(redelivery)
        return event.event_id

    def flush(self, timeout_s: float = 10.0) -> "KeepingRecorder":
        return self


def test_every_message_is_contributed_by_exactly_one_event() -> None:
    rows = json.loads(FILE.read_text("utf-8"))
    for row, trajectory in zip(rows, read(), strict=True):
        context = fold_context(make_events(trajectory, "acme"))
        assert [message.role for message in context] == [chat["role"] for chat in row["traj"]]
        texts = [chat["content"] or "" for chat in row["traj"]]
        assert [message.text for message in context] == texts


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


def test_the_rows_metadata_travels_with_the_start_whole() -> None:
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


def test_how_a_trajectory_ended_is_told_apart() -> None:
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


def test_seq_is_gapless_and_times_keep_the_order() -> None:
    for trajectory in read():
        events = make_events(trajectory, "acme")
        assert [event.seq for event in events] == list(range(len(events)))
        assert sorted(events, key=lambda event: event.occurred_at) == events
        assert len({event.trajectory_id for event in events}) == 1


@pytest.mark.parametrize(
    ("rows", "place", "reason"),
    [
        ("{", "run.json", "not JSON"),
        ({"task_id": 1}, "run.json", "not a list of rows"),
        ([7], "run.json row 0", "not an object"),
        ([{"task_id": 1}], "run.json row 0", "no 'traj'"),
        ([{"task_id": None, "traj": []}], "run.json row 0", "must be a number or text"),
        ([{"task_id": 1, "traj": [{"content": "x"}]}], "run.json row 0", "message 0 has no role"),
        (
            [{"task_id": 1, "traj": [], "reward": "1"}],
            "run.json row 0",
            "'reward' must be a number",
        ),
    ],
)
def test_what_is_broken_is_named_by_file_and_row(
    tmp_path: Path, rows: object, place: str, reason: str
) -> None:
    report = run_import("tau-bench", [written(tmp_path, rows)], "acme", None, DRY_RUN)
    (failure,) = report.failures
    assert failure.origin.endswith(place)
    assert reason in failure.reason
    assert not report.ok


def test_a_broken_row_does_not_stop_the_others(tmp_path: Path) -> None:
    rows: list[Any] = json.loads(FILE.read_text("utf-8"))
    rows.insert(1, {"task_id": 9})
    kept = KeepingRecorder()
    report = run_import(
        "tau-bench", [written(tmp_path, rows), tmp_path / "missing.json"], "acme", kept
    )
    assert (report.imported, report.failed, report.skipped) == (4, 2, 0)
    assert report.delivered is True
    assert len(kept.events) == report.events
    assert kept.redelivery == {True}


def test_a_row_nested_too_deeply_fails_alone_and_deep_arguments_are_kept_as_text(
    tmp_path: Path,
) -> None:
    deep = "[" * 300 + "]" * 300

    def row(number: int, arguments: object, **more: object) -> dict[str, object]:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        turns = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
        return {"task_id": number, "reward": 1.0, "info": {}, "traj": turns, **more}

    file = tmp_path / "x.json"
    rows = [
        row(1, deep),
        row(2, json.loads(deep)),
        row(3, "{}", deep=json.loads(deep)),
        row(4, "{}"),
    ]
    file.write_text(json.dumps(rows))
    report = run_import("tau-bench", [file], "acme", None, DRY_RUN)
    assert (report.imported, report.failed) == (2, 2)
    assert all("254 levels" in failure.reason for failure in report.failures)


def test_a_file_given_twice_is_imported_once() -> None:
    report = run_import("tau-bench", [FILE, FILE], "acme", None, DRY_RUN)
    assert (report.imported, report.skipped) == (4, 4)


def test_a_folder_stands_for_its_files_of_the_format(tmp_path: Path) -> None:
    written(tmp_path, FILE.read_text("utf-8"))
    (tmp_path / "notes.txt").write_text("not a run")
    report = run_import("tau-bench", [tmp_path], "acme", None, DRY_RUN)
    assert (report.files, report.imported, report.failed) == (1, 4, 0)


def test_an_empty_folder_and_a_foreign_file_are_failures_not_silence(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a run")
    report = run_import("tau-bench", [tmp_path, foreign], "acme", None, DRY_RUN)
    assert [isinstance(failure, UnreadableEntry) for failure in report.failures] == [True, True]


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(ImportFailed, match="tau-bench"):
        run_import("nonsense", [], "acme", None, DRY_RUN)


def test_progress_is_reported_after_every_trajectory() -> None:
    seen: list[int] = []

    def progress(report: ImportReport) -> None:
        seen.append(report.imported)

    run_import("tau-bench", [FILE], "acme", None, ImportOptions(dry_run=True, progress=progress))
    assert seen == [1, 2, 3, 4]


def test_the_sdks_recorder_delivers_an_import(tmp_path: Path) -> None:
    sender = MemorySender()
    recorder = Recorder(
        tenant="acme",
        api_key=ApiKey.generate(),
        sender=sender,
        spool_dir=tmp_path / "spool",
        on_full="block",
    )
    try:
        report = run_import("tau-bench", [FILE], "acme", recorder)
    finally:
        recorder.close()
    assert report.delivered is True
    assert len(sender.records) == report.events


@pytest.mark.skipif(not REAL.is_dir(), reason="the real trajectories are not at hand")
def test_the_real_retail_runs_count_exactly() -> None:
    kept = KeepingRecorder()
    files = sorted(REAL.glob("tool-calling-*.json"))
    report = run_import("tau-bench", files, "retail", kept)
    assert (report.imported, report.failed, report.skipped) == (575, 0, 0)
    assert (report.messages, report.tool_calls, report.rewards) == (18_596, 4_977, 575)
    assert len({event.event_id for event in kept.events}) == len(kept.events)
    ends = Counter(
        event.body.status for event in kept.events if isinstance(event.body, TrajectoryEnded)
    )
    assert ends == {"completed": 564, "truncated": 8, "failed": 3}
    means = {}
    for file in files:
        single = run_import("tau-bench", [file], "retail", None, DRY_RUN)
        means[file.stem] = round(single.reward_sum / single.rewards, 3)
    assert sorted(means.values()) == [0.748, 0.878, 0.896, 0.922, 0.930]
    groups = {event.task_id for event in kept.events}
    assert len(groups) == 115
    for file in files:
        rows = json.loads(file.read_text("utf-8"))
        for row, trajectory in zip(rows, read(file), strict=True):
            context = [
                message
                for entry in trajectory.events
                for message in contributed_messages(entry.body)
            ]
            assert [message.text for message in context] == [
                chat["content"] or "" for chat in row["traj"]
            ]
