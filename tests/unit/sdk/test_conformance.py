"""The events of the SDK keep the rules of events and of sequences, also when some are lost."""

import json
from pathlib import Path
from typing import Any

from atdp.schemas import (
    Event,
    Generation,
    check_producer,
    check_sequence,
    event_to_json,
    read_events,
)
from atdp.sdk import MemorySender, Recorder

from .conftest import MakeRecorder


def record_everything(recorder: Recorder) -> None:
    """Record two trajectories with events of every kind that the SDK makes."""
    for text in ("where is order 7?", "and order 8?"):
        messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
        with recorder.trajectory(task_id="t") as trajectory:
            trajectory.observe(messages, tools=[{"name": "look"}])
            call = trajectory.generation(
                "let me look", Generation(prompt_token_ids=(1, 2), output_token_ids=(3,))
            )
            trajectory.tool_call("look", {"order": 7}, call_id="c-1")
            trajectory.outcome("shipped", call_id="c-1")
            trajectory.observe([{"role": "user", "content": "thanks"}], whole_context=False)
            trajectory.act_message("bye")
            recorder.reward(0.5, trajectory_id=trajectory.trajectory_id, target_event_id=call)
        recorder.reward(1.0, trajectory_id=trajectory.trajectory_id)


def delivered(recorder: Recorder, sender: MemorySender) -> list[Event]:
    assert recorder.flush().pending == 0
    return sender.events


def test_what_the_sdk_delivers_keeps_every_rule(
    recorder: Recorder, sender: MemorySender, tmp_path: Path
) -> None:
    record_everything(recorder)
    file = tmp_path / "events.jsonl"
    events = delivered(recorder, sender)
    file.write_text("".join(json.dumps(event_to_json(each)) + "\n" for each in events), "utf-8")
    report = check_producer(read_events(file))
    assert report.items == len(events) == 20
    assert [(each.rule_id, each.places) for each in report if each.failed] == []
    seen = {each.rule_id for each in report if each.verdict == "passed"}
    assert {"Sequence.context_hash", "Sequence.tools", "Sequence.target", "Action.body"} <= seen


def test_the_sequence_is_kept_with_the_gap_of_a_refused_event(make_recorder: MakeRecorder) -> None:
    sender = MemorySender(lambda record: "refused" if b"refuse-me" in record.value else "delivered")
    recorder = make_recorder(sender=sender)
    with recorder.trajectory() as trajectory:
        trajectory.observe([{"role": "user", "content": "one"}])
        trajectory.act_message("two", metadata={"receiver": "refuse-me"})
        recorder.flush()
        trajectory.observe([{"role": "user", "content": "three"}], whole_context=False)
    events = delivered(recorder, sender)
    assert [event.kind for event in events].count("gap") == 1
    assert check_sequence(events) == ()
    assert "Sequence.seq_gapless" in check_sequence(
        [event for event in events if event.kind != "gap"]
    )
