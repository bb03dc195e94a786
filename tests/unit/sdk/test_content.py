"""Texts are changed or withheld before anything is written, and readers see what is missing.

Closed on doubt: where a function fails, nothing of the event is written.
"""

import dataclasses
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import atdp.sdk as sdk
from atdp.schemas import (
    KIND_OF_BODY,
    Action,
    Agent,
    ContextFold,
    Error,
    Event,
    Gap,
    Generation,
    Governance,
    Message,
    Observation,
    Outcome,
    Part,
    Reward,
    Source,
    ToolCall,
    TrajectoryId,
    encode,
    hash_of_tools,
    new_event_id,
)
from atdp.sdk import ConfigurationError, ContentKind, MemorySender, Recorder
from atdp.sdk.content_fields import RECORDS, TEXTS
from atdp.sdk.content_kinds import CONTENT_KINDS, withheld_by_environment
from atdp.sdk.content_rules import ContentRules, process_rules

MakeRecorder = Callable[..., Recorder]
ADDRESS = "ann@example.com"


def redact(text: str, place: str) -> str | None:
    if "explode" in text:
        raise ValueError(text)
    return None if "withhold" in text else text.replace(ADDRESS, "<email>")


async def redact_later(text: str, place: str) -> str | None:
    return redact(text, place)


@pytest.fixture(autouse=True)
def rules_of_the_process() -> Iterator[None]:
    yield
    process_rules.rules = ContentRules()


@pytest.fixture
def redacting(make_recorder: MakeRecorder, sender: MemorySender) -> Recorder:
    return make_recorder(sender=sender, redact=redact)


def bodies(sender: MemorySender) -> list[object]:
    return [event.body for event in sender.events]


def newest_call(sender: MemorySender) -> ToolCall:
    body = sender.events[-1].body
    assert isinstance(body, Action)
    assert body.tool_call is not None
    return body.tool_call


# Redaction.


def test_no_place_of_an_event_or_of_the_spool_holds_a_text_that_was_redacted(
    make_recorder: MakeRecorder, tmp_path: Path
) -> None:
    sender = MemorySender(verdict=lambda _: "retry")
    recorder = make_recorder(sender=sender, redact=redact)
    escaped = ADDRESS.replace("@", r"\u0040")
    with recorder.trajectory(task=f"write to {ADDRESS}") as trajectory:
        trajectory.observe(
            [{"role": "user", "content": ADDRESS, "name": ADDRESS}],
            tools=[{"name": "send", "description": ADDRESS}],
        )
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "f", "arguments": f'["{escaped}"]'},
        }
        trajectory.generation({"role": "assistant", "content": None, "tool_calls": [call]})
        trajectory.tool_call(
            "f", f'{{"{ADDRESS}": {{"to": "{escaped}"}}}}', metadata={"who": ADDRESS}
        )
        trajectory.outcome({"nested": json.dumps({"to": ADDRESS})}, ext={"who": ADDRESS})
        trajectory.gap("lost", ADDRESS)
        trajectory.end(error=Error(type="ValueError", message=ADDRESS))
    recorder.reward(1.0, trajectory_id="t", critique=ADDRESS)
    recorder.feedback("comment", trajectory_id="t", text=ADDRESS, actor=ADDRESS)
    recorder.emit_event(
        Event(
            event_id=new_event_id(),
            tenant_id=recorder.tenant,
            trajectory_id=trajectory.trajectory_id,
            producer_id="importer",
            seq=0,
            agent=Agent(id="a"),
            source=Source(format="test"),
            metadata_json=json.dumps({"who": ADDRESS}),
            body=Outcome(message=Message(role="tool", parts=(Part(text=ADDRESS),))),
        )
    )
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert recorder.stats().pending == recorder.emitted == 10
    assert written.count(b"<email>") > 11
    assert ADDRESS.encode() not in written
    assert escaped.encode() not in written


def test_an_observation_refers_to_the_redacted_context_and_sends_only_what_is_new(
    redacting: Recorder, sender: MemorySender
) -> None:
    shown: list[dict[str, Any]] = [{"role": "user", "content": f"I am {ADDRESS}"}]
    tools = [{"name": "send", "description": f"sends to {ADDRESS}"}]
    trajectory = redacting.trajectory()
    trajectory.observe(shown, tools=tools)
    trajectory.act_message(f"Hello {ADDRESS}")
    shown += [
        {"role": "assistant", "content": f"Hello {ADDRESS}"},
        {"role": "user", "content": f"Not {ADDRESS}"},
    ]
    trajectory.observe(shown, tools=tools)
    redacting.flush()
    first, second = (body for body in bodies(sender) if isinstance(body, Observation))
    assert [message.text for message in second.messages] == ["Not <email>"]
    assert first.tools_json is not None
    assert first.tools_hash == hash_of_tools(json.loads(first.tools_json)) == second.tools_hash
    fold = ContextFold.of(sender.events)
    assert fold.intact
    assert [message.text for message in fold.messages] == [
        "I am <email>",
        "Hello <email>",
        "Not <email>",
    ]


def test_a_message_that_was_observed_before_is_not_redacted_again(
    make_recorder: MakeRecorder,
) -> None:
    given: list[str] = []

    def note(text: str, place: str) -> str:
        given.append(text)
        return text

    recorder = make_recorder(redact=note)
    shown = [{"role": "user", "content": str(number)} for number in range(5)]
    trajectory = recorder.trajectory()
    for end in (3, 4, 5):
        trajectory.observe(shown[:end])
    assert given == ["0", "1", "2", "3", "4"]


def test_a_function_gets_each_text_of_json_with_its_place(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    given: list[tuple[str, str]] = []

    def note(text: str, place: str) -> str:
        given.append((text, place))
        return text

    recorder = make_recorder(sender=sender, redact=note)
    arguments = '{ "to": {"name": "Ann"}, "n": [1, true, null] }'
    recorder.trajectory().tool_call("f", arguments)
    recorder.flush()
    assert set(given) == {
        ("to", "tool_arguments"),
        ("name", "tool_arguments.to"),
        ("Ann", "tool_arguments.to.name"),
        ("n", "tool_arguments"),
        ("1", "tool_arguments.n"),
    }
    call = newest_call(sender)
    assert call.arguments == arguments  # as the model wrote them


def test_numbers_and_both_values_of_a_repeated_key_can_be_redacted(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    recorder = make_recorder(
        sender=sender, redact=lambda text, _: "****" if text in {"4111", "hidden"} else text
    )
    recorder.trajectory().tool_call("f", '{"card": 4111, "a": "hidden", "a": 1.5}')
    recorder.flush()
    call = newest_call(sender)
    assert "4111" not in call.arguments
    assert "hidden" not in call.arguments
    assert json.loads(call.arguments) == {"card": "****", "a": 1.5}


def test_a_text_for_which_the_function_returns_none_is_withheld_and_the_event_says_so(
    redacting: Recorder, sender: MemorySender
) -> None:
    trajectory = redacting.trajectory()
    trajectory.observe([{"role": "user", "content": "withhold this"}])
    trajectory.observe(
        [{"role": "user", "content": "withhold this"}, {"role": "user", "content": "not this"}]
    )
    report = redacting.flush()
    assert report.complete
    _, first, second = sender.events
    assert isinstance(first.body, Observation)
    assert first.body.messages == (Message(role="user", parts=(Part(type="text", text=None),)),)
    assert json.loads(first.metadata_json or "") == {"atdp_withheld": ["messages"]}
    assert first.governance == Governance(purposes=("analytics",))
    assert (second.metadata_json, second.governance) == (None, None)


@pytest.mark.parametrize("broken", [redact, lambda *_: 7])
def test_where_the_function_fails_nothing_of_the_event_is_written_and_a_gap_names_its_number(
    make_recorder: MakeRecorder,
    sender: MemorySender,
    broken: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = make_recorder(sender=sender, redact=broken)
    trajectory = recorder.trajectory().start()
    trajectory.tool_call("f", {"secret": "explode"})
    trajectory.observe([{"role": "user", "content": "explode"}])
    report = recorder.flush()
    assert report.failed == 2
    assert {reason.split(" for ")[0].split("; ")[0] for reason in report.reasons} <= {
        "not recordable: RedactionFailed: redact raised ValueError",
        "not recordable: RedactionFailed: redact returned int",
    }
    gaps = [event for event in sender.events if isinstance(event.body, Gap)]
    assert [(gap.seq, gap.body.code, gap.body.from_seq, gap.body.to_seq) for gap in gaps] == [  # type: ignore[union-attr]
        (1, "redaction_failed", 1, 1),
        (2, "redaction_failed", 2, 2),
    ]
    everything = str(sender.events) + str(report.reasons) + caplog.text
    assert "explode" not in everything
    assert recorder.stats().last_errors.keys() == {"failed"}


def test_after_a_failure_the_next_observation_sends_the_whole_context(
    redacting: Recorder, sender: MemorySender
) -> None:
    trajectory = redacting.trajectory()
    trajectory.observe([{"role": "user", "content": "one"}])
    trajectory.observe([{"role": "user", "content": "one"}, {"role": "user", "content": "explode"}])
    trajectory.observe([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
    redacting.flush()
    fold = ContextFold.of(sender.events)
    assert fold.intact
    assert [message.text for message in fold.messages] == ["one", "two"]


def test_what_nothing_changes_is_written_as_it_was_given(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    recorder = make_recorder(sender=sender, redact=redact, capture={"judgements": False})
    given = Event(
        event_id=new_event_id(),
        tenant_id=recorder.tenant,
        trajectory_id=TrajectoryId("t"),
        producer_id="importer",
        seq=0,
        agent=Agent(id="a"),
        source=Source(format="test"),
        metadata_json='{ "a": 1.10, "a": [] }',
        ext_json='{"a":{}}',
        body=Outcome(message=Message(role="tool", parts=(Part(text='{ "x": 1.0 }'),))),
    )
    recorder.emit_event(given)
    recorder.flush()
    assert sender.events == [given]


def test_what_the_function_records_itself_is_not_recorded_and_makes_no_endless_loop(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    @sdk.observe
    def search(text: str) -> str:
        recorder.reward(1.0, trajectory_id="t", critique=text)
        return text

    recorder = make_recorder(sender=sender, redact=lambda text, _: search(text))
    with recorder.trajectory() as trajectory:
        trajectory.act_message("hello")
    report = recorder.flush()
    # Per text a tool call, a reward and an outcome; trajectory events have gaps in their place.
    reason = "not recordable: RedactionFailed: redact itself recorded it; it must not record"
    assert report.reasons == {reason: 3}
    assert [event.kind for event in sender.events] == [
        *("trajectory_started", "action", "gap", "gap", "trajectory_ended")
    ]


def test_token_ids_are_not_written_where_texts_may_be_changed(
    redacting: Recorder, sender: MemorySender
) -> None:
    generation = Generation(
        model="m", prompt_token_ids=(1,), output_token_ids=(2,), output_logprobs=(-1.0,)
    )
    redacting.trajectory().generation("nothing to redact", generation)
    redacting.flush()
    event = sender.events[-1]
    assert isinstance(event.body, Action)
    assert event.body.generation == Generation(model="m")
    assert json.loads(event.metadata_json or "") == {"atdp_withheld": ["tokens"]}
    assert event.governance is None  # the text is complete and may be trained on


def test_every_text_of_a_body_is_content_or_a_name_that_events_are_joined_by() -> None:
    names = {
        *("call_id", "name", "mime", "sha256", "signature", "cache_control_json", "role", "type"),
        *("environment", "provenance", "context_hash", "tools_hash", "tool_type", "op", "to"),
        *("subagent_trajectory_id", "trajectory_id", "decision", "index", "id", "model", "code"),
        *("encoding_format", "category", "target_event_id", "compared_to", "label", "scale"),
        *("dimension", "source_name", "evaluator_version", "rule", "supersedes", "status"),
        *("evidence", "annotator_version", "target_kind", "result", "side_effect"),
    }
    # Tokens are withheld with their generation; its other texts name models and places.
    seen: set[type] = {Generation}
    waiting: list[type] = list(KIND_OF_BODY)
    while waiting:
        record = waiting.pop()
        seen.add(record)
        for name, hint in typing.get_type_hints(record).items():
            kinds = set(_leaves(hint))
            inner = [
                kind for kind in kinds if type(kind) is type and dataclasses.is_dataclass(kind)
            ]
            waiting += [kind for kind in inner if kind not in seen]
            if str in kinds and name not in TEXTS.get(record, ()):
                assert name in names, f"{record.__name__}.{name}: content or a name?"
            if inner and name not in {"generation", "embedding"}:  # which has no content
                assert name in RECORDS.get(record, ()), f"{record.__name__}.{name}"


def _leaves(hint: Any) -> Iterator[Any]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return
    yield from (leaf for each in arguments for leaf in _leaves(each)) if arguments else [hint]


# Capture.


def record_everything(recorder: Recorder) -> None:
    message = {
        "role": "assistant",
        "content": "my messages",
        "reasoning_content": "my reasoning",
        "reasoning_details": ["my reasoning"],
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": "my tool_arguments"},
            }
        ],
    }
    tools = [{"name": "f", "description": "my tool_definitions"}]
    generation = Generation(output_token_ids=(424242,))
    with recorder.trajectory(task="my messages") as trajectory:
        trajectory.observe([{"role": "user", "content": "my messages"}], tools=tools)
        trajectory.generation(message, generation, metadata={"x": "my metadata"})
        trajectory.tool_call("f", {"x": "my tool_arguments"}, call_id="c")
        trajectory.outcome("my tool_results", call_id="c", ext={"x": "my metadata"})
        trajectory.observe(
            [
                {"role": "user", "content": "my messages"},
                message,
                {"role": "tool", "tool_call_id": "c", "content": "my tool_results"},
            ],
            tools=tools,
        )
        trajectory.feedback("comment", text="my judgements")
    recorder.reward(1.0, trajectory_id=trajectory.trajectory_id, critique="my judgements")


@pytest.mark.parametrize("kind", CONTENT_KINDS)
def test_a_kind_that_is_turned_off_is_nowhere_and_the_other_kinds_are_there(
    make_recorder: MakeRecorder, sender: MemorySender, kind: ContentKind
) -> None:
    recorder = make_recorder(sender=sender, capture={kind: False})
    record_everything(recorder)
    assert recorder.flush().complete
    assert ContextFold.of(sender.events[:-1]).intact
    values = b"".join(encode(event) for event in sender.events)
    for other in CONTENT_KINDS:
        if other != "tokens":
            assert (f"my {other}".encode() in values) == (other != kind), other
    action = bodies(sender)[2]
    assert isinstance(action, Action)
    assert action.generation is not None
    model_kinds = {"messages", "reasoning", "tool_arguments", "tool_results", "tool_definitions"}
    assert (action.generation.output_token_ids is None) == (kind in {*model_kinds, "tokens"})
    marked = [event for event in sender.events if kind in (event.metadata_json or "")]
    assert marked
    assert all((event.governance is not None) == (kind in model_kinds) for event in marked)
    unmarked = [event for event in sender.events if event not in marked]
    assert all(event.governance is None for event in unmarked)


def test_withheld_content_permits_no_purpose_that_its_event_did_not_permit(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    recorder = make_recorder(sender=sender, capture={"tool_arguments": False})
    trajectory = recorder.trajectory(governance=Governance(purposes=("train", "analytics")))
    trajectory.tool_call("f", {})
    trajectory.tool_call("f", {}, governance=Governance(purposes=("train",)))
    recorder.flush()
    stamps = [event.governance.purposes for event in sender.events if event.governance]
    assert stamps == [("train", "analytics"), ("analytics",), ("none",)]


def test_the_rules_of_init_hold_for_every_recorder_of_the_process(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    earlier = make_recorder(sender=sender)
    trajectory = earlier.trajectory().start()
    made = sdk.init(
        tenant="acme",
        api_key="atdp_0123456789ab_secret",
        sender=MemorySender(),
        durability="memory",
        redact=redact,
        capture={"tool_arguments": False},
    )
    try:
        trajectory.act_message(ADDRESS)
        trajectory.tool_call("f", {"x": 1})
        earlier.flush()
        _, message, call = bodies(sender)
        assert message == Action(
            type="message", message=Message(role="assistant", parts=(Part(text="<email>"),))
        )
        assert isinstance(call, Action)
        assert isinstance(call.tool_call, ToolCall)
        assert (call.tool_call.arguments, call.tool_call.arguments_json) == ("", None)
    finally:
        made.close()


@pytest.mark.parametrize(
    ("environment", "withheld"),
    [
        ({}, set()),
        ({"ATDP_CAPTURE": "true"}, set()),
        ({"ATDP_CAPTURE": "False"}, set(CONTENT_KINDS)),
        ({"ATDP_CAPTURE": "messages=false, tool_results=true"}, {"messages"}),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}, set()),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}, set()),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "false"}, set(CONTENT_KINDS)),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT"}, set(CONTENT_KINDS)),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "?"}, set(CONTENT_KINDS)),
    ],
)
def test_the_environment_turns_kinds_off(environment: dict[str, str], withheld: set[str]) -> None:
    assert withheld_by_environment(environment) == withheld


def test_the_environment_holds_for_every_recorder_whatever_its_options_say(
    make_recorder: MakeRecorder, sender: MemorySender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATDP_CAPTURE", "judgements=false")
    recorder = make_recorder(sender=sender, capture={"judgements": True})
    recorder.reward(0.5, trajectory_id="t", critique="quite good")
    recorder.flush()
    (reward,) = bodies(sender)
    assert isinstance(reward, Reward)
    assert (reward.value, reward.critique) == (0.5, None)


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        ({"capture": {"mesages": False}}, "", "'mesages' is no kind of content; the kinds are"),
        ({"capture": {"messages": "no"}}, "", "must be True or False"),
        ({"capture": "messages"}, "", "must be a dict"),
        ({"redact": "email"}, "", "must be a plain function of a text and its place"),
        ({"redact": lambda text: text}, "", "must be a plain function"),
        ({"redact": redact_later}, "", "must be a plain function"),
        ({}, "messages", "set messages to true or false"),
        ({}, "off", "ATDP_CAPTURE: 'off' is no kind"),
    ],
)
def test_rules_that_cannot_work_are_refused(
    make_recorder: MakeRecorder,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    environment: str,
    message: str,
) -> None:
    monkeypatch.setenv("ATDP_CAPTURE", environment)
    with pytest.raises(ConfigurationError, match=message):
        make_recorder(**options)


# What hides a text.


class OwnToolCall(ToolCall):
    """A subclass of a host, whose fields the rules do not know."""


SECRET_PARTS: Any = [Part(text=ADDRESS)]


@pytest.mark.parametrize(
    "body",
    [
        Action(type="message", message=Message(role="assistant", parts=SECRET_PARTS)),
        Observation(messages=typing.cast("Any", [Message(role="user", parts=SECRET_PARTS)])),
        Action(type="tool_call", tool_call=OwnToolCall(call_id="c", name="f", arguments=ADDRESS)),
    ],
)
@pytest.mark.parametrize(
    "options", [{"redact": redact}, {"capture": dict.fromkeys(CONTENT_KINDS, False)}]
)
def test_lists_and_subclasses_in_a_body_do_not_hide_a_text(
    make_recorder: MakeRecorder, sender: MemorySender, options: dict[str, Any], body: Any
) -> None:
    recorder = make_recorder(sender=sender, **options)
    recorder.trajectory().emit(body)
    recorder.flush()
    assert len(sender.events) == 2
    assert ADDRESS not in str(sender.events)


@pytest.mark.parametrize(
    "arguments",
    [r'"ann\u0040example.com"', '{"card": 41111111111111119e0}', "[0.041111111111111119]"],
)
def test_an_escape_or_an_exponent_does_not_hide_a_text(
    make_recorder: MakeRecorder, sender: MemorySender, arguments: str
) -> None:
    def mask(text: str, _: str) -> str:
        return text.replace(ADDRESS, "<email>").replace("41111111111111119", "1")

    recorder = make_recorder(sender=sender, redact=mask)
    recorder.trajectory().tool_call("f", arguments)
    recorder.flush()
    call = newest_call(sender)
    written = f"{call.arguments} {call.arguments_json}"
    assert "u0040" not in written
    assert "41111111111111119" not in written


def test_a_value_that_is_written_otherwise_the_second_time_is_looked_at_as_it_is_written(
    redacting: Recorder, sender: MemorySender
) -> None:
    texts = iter(["harmless", ADDRESS])

    class Changing:
        def __repr__(self) -> str:
            return next(texts)

    redacting.trajectory().act_message("x", metadata={"value": Changing()})
    redacting.flush()
    assert sender.events[-1].metadata_json == '{"value": "harmless"}'


def test_no_reason_quotes_a_key_or_an_error_of_the_host(
    redacting: Recorder, sender: MemorySender, caplog: pytest.LogCaptureFixture
) -> None:
    def messages() -> Iterator[dict[str, str]]:
        yield {"role": "user", "content": "one"}
        raise ConnectionError(f"404 for https://example.com/?user={ADDRESS}")

    trajectory = redacting.trajectory()
    trajectory.observe(messages())
    trajectory.tool_call("f", {ADDRESS: f'[1e999, "{ADDRESS}"]'})
    report = redacting.flush()
    assert report.failed == 2
    assert ADDRESS not in f"{sender.events} {report} {redacting.stats()} {caplog.text}"


def test_a_digest_of_a_withheld_content_is_not_written(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    recorder = make_recorder(sender=sender, capture={"messages": False})
    image = Part(type="image", uri="data:image/png;base64,AA==", sha256="0" * 64, size_bytes=1)
    recorder.trajectory().act_message(Message(role="assistant", parts=(image,)))
    recorder.flush()
    action = sender.events[-1].body
    assert isinstance(action, Action)
    assert action.message is not None
    assert action.message.parts == (Part(type="image"),)


def test_an_observation_that_sends_withheld_messages_again_permits_analytics_only(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    recorder = make_recorder(sender=sender, capture={"tool_results": False})
    trajectory = recorder.trajectory()
    trajectory.outcome("secret", call_id="c")
    trajectory._writer.builder.lose()  # as after an event that did not get into the log
    trajectory.observe([{"role": "user", "content": "go on"}], whole_context=False)
    recorder.flush()
    again = sender.events[-1]
    assert isinstance(again.body, Observation)
    assert [message.role for message in again.body.messages] == ["tool", "user"]
    assert again.governance == Governance(purposes=("analytics",))
    assert "tool_results" in (again.metadata_json or "")
