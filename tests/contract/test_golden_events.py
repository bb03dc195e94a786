"""Bytes written by every released version are read by today's code.

`golden/event.vN/NAME.avro` is frozen when version N is released; `NAME.json` says what today's code
must read from it. Refresh the newest version's files with `ATDP_UPDATE_GOLDEN=1 pytest
tests/contract/test_golden_events.py` and review the diff.
"""

import dataclasses
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from atdp.schemas import (
    KIND_OF_BODY,
    Action,
    Agent,
    Annotation,
    Body,
    Cost,
    Error,
    Event,
    EventId,
    Feedback,
    Finding,
    Gap,
    Generation,
    Governance,
    InternalState,
    Message,
    Observation,
    Outcome,
    Part,
    Reward,
    Sampling,
    Source,
    TenantId,
    ToolCall,
    TrajectoryEnded,
    TrajectoryId,
    TrajectoryStarted,
    Usage,
    Versions,
    VersionSpan,
    decode,
    encode,
    event_to_json,
    newest,
)

GOLDEN = Path(__file__).parent / "golden"
WHEN = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
HELLO = Message(role="user", parts=(Part(text="Grüß Gott, 7 rope?"),), ext_json='{"refusal":null}')

BODIES: dict[str, Body] = {
    "trajectory_started": TrajectoryStarted(task="sell rope", environment="order-desk", seed=7),
    "observation": Observation(
        messages=(HELLO,),
        context_base=0,
        context_hash="ab" * 32,
        tools_hash="cd" * 32,
        tools_json="[]",
    ),
    "internal_state": InternalState(
        type="plan", text="look up, multiply", confidence=0.5, provenance="harness"
    ),
    "generation": Action(
        type="generation",
        message=Message(role="assistant", parts=(Part(text="91"),)),
        generation=Generation(
            model="orderdesk",
            served_model="orderdesk",
            provider="sglang",
            request_id="r-1",
            prompt_token_ids=(1, 2, 3),
            output_token_ids=(57, 49, 2),
            output_logprobs=(-0.5, -0.25, -0.125),
            loss_mask=(1, 1, 0),
            policy_versions=(
                VersionSpan(version="v1", start=0, end=2),
                VersionSpan(version="v2", start=2, end=3),
            ),
            sampling=Sampling(
                temperature=1.0,
                top_p=1.0,
                top_k=-1,
                min_p=0.0,
                max_tokens=16,
                seed=1,
                stop=("###",),
            ),
            tokenizer_hash="ef" * 32,
            template_hash="01" * 32,
            finish_reason="stop",
        ),
    ),
    "tool_call": Action(
        type="tool_call",
        tool_call=ToolCall(call_id="c1", name="calc", arguments="{oops", side_effect="read"),
    ),
    "outcome": Outcome(
        call_id="c1",
        name="calc",
        message=Message(role="tool", call_id="c1"),
        result="error",
        exit_code=1,
        error=Error(type="ValueError", message="oops"),
        decision="rejected",
    ),
    "reward": Reward(
        value=0.0,
        source_name="checker",
        evaluator_version="1",
        observed_at=WHEN,
        dimension="outcome",
    ),
    "feedback": Feedback(
        target_kind="step", target_step=2, type="correction", text="no, 91", actor="customer"
    ),
    "annotation": Annotation(
        target_kind="event",
        target_event_id="e",
        name="failure",
        value_json='"tool"',
        annotator="human",
    ),
    "gap": Gap(code="queue_full", detail="3 events dropped", from_seq=4, to_seq=6),
    "trajectory_ended": TrajectoryEnded(status="failed", error=Error(type="Timeout")),
}


def golden_event(index: int, body: Body) -> Event:
    return Event(
        event_id=EventId(f"019aa5c0-0000-7000-8000-{index:012d}"),
        tenant_id=TenantId("acme"),
        trajectory_id=TrajectoryId("t-1"),
        attempt=1,
        producer_id="p-1",
        seq=index,
        step=2,
        occurred_at=WHEN,
        ended_at=WHEN,
        session_id="s-1",
        task_id="task-1",
        caused_by=("019aa5c0-0000-7000-8000-000000000000",),
        parent_trajectory_id="t-0",
        spawned_by="e-0",
        agent=Agent(id="desk", version="3", framework="openai"),
        source=Source(format="sdk", version="0.1.0"),
        versions=Versions(harness="h1", weights="v2"),
        usage=Usage(input_tokens=3, output_tokens=3),
        cost=Cost(amount=0.25),
        latency_us=1500,
        status="ok",
        metadata_json='{"a":1}',
        ext_json='{"trial":3}',
        governance=Governance(
            purposes=("train", "analytics"),
            consent="granted",
            data_subjects=("s",),
            replay_class="deterministic",
            policy_id="default",
            policy_version=1,
            policy_hash="23" * 32,
            governed_at=WHEN,
            training_eligible=True,
            eligibility_reason="ok",
            token_fidelity="exact",
            findings=(
                Finding(
                    path="$.observation.messages[0]",
                    entity="EMAIL_ADDRESS",
                    operator="pseudonym",
                    count=2,
                ),
            ),
        ),
        body=body,
    )


def files() -> list[Path]:
    newest_folder = GOLDEN / f"event.v{newest('event').version}"
    if os.environ.get("ATDP_UPDATE_GOLDEN") == "1":
        newest_folder.mkdir(parents=True, exist_ok=True)
        for index, (name, body) in enumerate(BODIES.items()):
            event = golden_event(index, body)
            (newest_folder / f"{name}.avro").write_bytes(encode(event))
            text = json.dumps(event_to_json(event), indent=1, ensure_ascii=False, sort_keys=True)
            (newest_folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return sorted(GOLDEN.glob("event.v*/*.avro"))


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_frozen_record_reads_as_it_always_did(file: Path) -> None:
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    assert event_to_json(decode(file.read_bytes())) == expected


@pytest.mark.parametrize("name", BODIES)
def test_todays_writer_still_writes_the_newest_golden_bytes(name: str) -> None:
    file = GOLDEN / f"event.v{newest('event').version}" / f"{name}.avro"
    index = list(BODIES).index(name)
    assert encode(golden_event(index, BODIES[name])) == file.read_bytes()


def test_every_kind_has_a_golden_record() -> None:
    assert {type(body) for body in BODIES.values()} == set(KIND_OF_BODY)
    assert dataclasses.is_dataclass(golden_event(0, BODIES["gap"]))
