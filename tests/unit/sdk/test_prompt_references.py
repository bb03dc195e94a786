"""The SDK writes prompts as references to generations that are in the spool, and to no others."""

from collections.abc import Callable
from typing import Any

from atdp.schemas import Action, Event, Generation, with_whole_prompts
from atdp.sdk import MemorySender, Recorder, Trajectory

from .test_lost_events import LIMIT_BYTES, REFUSED, StoppableSender, fill

MakeRecorder = Callable[..., Recorder]

TOKENIZER = "a" * 64
PROMPT = tuple(range(60))
OUTPUT = (70, 71)
CONTROL: dict[str, Any] = {"control_tokens": {TOKENIZER: {0}}}


def call(*more: int) -> Generation:
    return Generation(
        prompt_token_ids=(*PROMPT, *more), output_token_ids=OUTPUT, tokenizer_hash=TOKENIZER
    )


SECOND, THIRD = call(*OUTPUT, 0, 5), call(*OUTPUT, 0, 5, *OUTPUT, 0, 6)


def generations(events: list[Event]) -> list[Generation]:
    bodies = [event.body for event in events]
    return [body.generation for body in bodies if isinstance(body, Action) and body.generation]


def prefixes(sender: StoppableSender, trajectory: Trajectory) -> list[str | None]:
    return [each.prompt_prefix_event_id for each in generations(sender.of(trajectory))]


def test_a_prompt_that_continues_a_generation_is_written_as_a_reference(
    make_recorder: MakeRecorder,
) -> None:
    sender = StoppableSender()
    recorder = make_recorder(sender=sender, **CONTROL)
    trajectory = recorder.trajectory()
    first = trajectory.generation("one", call())
    second = trajectory.generation("two", SECOND)
    trajectory.generation("three", THIRD)
    recorder.flush()
    assert prefixes(sender, trajectory) == [None, first, second]
    assert [each.prompt_token_ids for each in generations(sender.of(trajectory))] == [
        PROMPT,
        (0, 5),
        (0, 6),
    ]
    whole = generations(list(with_whole_prompts(sender.of(trajectory))))
    assert whole == [call(), SECOND, THIRD]


def test_without_control_tokens_prompts_are_written_whole(
    recorder: Recorder, sender: MemorySender
) -> None:
    trajectory = recorder.trajectory()
    trajectory.generation("one", call())
    trajectory.generation("two", SECOND)
    recorder.flush()
    assert generations(sender.events) == [call(), SECOND]


def test_a_generation_that_was_dropped_is_not_referred_to(make_recorder: MakeRecorder) -> None:
    sender = StoppableSender()
    recorder = make_recorder(sender=sender, spool_limit_bytes=LIMIT_BYTES, **CONTROL)
    trajectory = recorder.trajectory().start()
    sender.is_stopped = True
    fill(recorder)
    trajectory.generation("one", call())  # dropped
    sender.is_stopped = False
    assert recorder.flush().pending == 0
    second = trajectory.generation("two", SECOND)
    trajectory.generation("three", THIRD)
    recorder.flush()
    assert prefixes(sender, trajectory) == [None, second]


def test_a_generation_that_the_receiver_refused_is_not_referred_to(
    make_recorder: MakeRecorder,
) -> None:
    sender = StoppableSender()
    recorder = make_recorder(sender=sender, **CONTROL)
    trajectory = recorder.trajectory().start()
    trajectory.generation("one", call(), metadata=REFUSED)
    recorder.flush()
    trajectory.generation("two", SECOND)
    recorder.flush()
    assert prefixes(sender, trajectory) == [None]
