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
    BlobRef,
    Body,
    Cost,
    Document,
    Embedding,
    Error,
    Event,
    EventId,
    Feedback,
    Finding,
    Gap,
    Generation,
    Governance,
    Guardrail,
    InternalState,
    Link,
    Message,
    Observation,
    Outcome,
    Part,
    Plan,
    Retrieval,
    Reward,
    RoutedExperts,
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
    check,
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
        copied=True,
    ),
    "internal_state": InternalState(
        type="plan", text="look up, multiply", confidence=0.5, provenance="harness"
    ),
    "memory_state": InternalState(type="memory", text="likes rope", ext_json='{"store":"notes"}'),
    "generation": Action(
        type="generation",
        message=Message(role="assistant", parts=(Part(text="91"),)),
        generation=Generation(
            model="orderdesk",
            served_model="orderdesk",
            provider="sglang",
            request_id="r-1",
            response_id="resp-1",
            choice_index=1,
            prompt_token_ids=(1, 2, 3),
            prompt_prefix_event_id="019aa5c0-0000-7000-8000-000000000001",
            prompt_prefix_tokens=40_000,
            output_token_ids=(57, 49, 2),
            output_logprobs=(-0.5, -0.25, -0.125),
            logprob_encoding="ln_at_temperature_1",
            routed_experts=RoutedExperts(
                layers=1, experts_per_token=2, start_token=3, expert_ids=(0, 5, 1, 7, 2, 5)
            ),
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
                max_tokens=1 << 40,
                choices=2,
                seed=1,
                stop=("###",),
            ),
            tokenizer_hash="ef" * 32,
            template_hash="01" * 32,
            finish_reason="stop",
            reasoning_effort="high",
            time_to_first_token_us=90_000,
            request_ref=BlobRef(uri="s3://raw/r-1.json", sha256="45" * 32, size_bytes=3_000),
            response_ref=BlobRef(uri="s3://raw/r-1.out.json", mime="application/json"),
        ),
        error=Error(type="stream_cut", code="502", message="upstream"),
    ),
    "retrieval": Action(
        type="retrieval",
        retrieval=Retrieval(
            query="rope 7",
            index="catalogue",
            top_k=2,
            documents=(Document(id="d-1", uri="kb://d-1", score=0.75, text="Rope"), Document()),
        ),
    ),
    "embedding": Action(
        type="embedding",
        embedding=Embedding(model="e", input_count=2, dimensions=8, encoding_format="float"),
    ),
    "guardrail": Action(
        type="guardrail",
        guardrail=Guardrail(name="pii", decision="block", category="email", score=0.5, reason="x"),
    ),
    "plan": Action(type="plan", plan=Plan(text="look up", items_json='["look up"]')),
    "parts": Action(
        type="message",
        message=Message(
            role="assistant",
            parts=(
                Part(type="reasoning", text="hm", signature="c2ln"),
                Part(
                    type="image",
                    mime="image/png",
                    uri="s3://blobs/1.png",
                    sha256="67" * 32,
                    size_bytes=1 << 33,
                    cache_control_json='{"type":"ephemeral"}',
                ),
                Part(type="custom_tool_call", call_id="c2", name="run", text="print(1)"),
                Part(type="tool_result", call_id="c2", text="1"),
                Part(type="video", uri="s3://blobs/2.mp4"),
            ),
        ),
    ),
    "tool_call": Action(
        type="tool_call",
        tool_call=ToolCall(call_id="c1", name="calc", arguments="{oops", side_effect="read"),
    ),
    "custom_tool_call": Action(
        type="tool_call",
        tool_call=ToolCall(
            call_id="c2",
            name="run",
            arguments="print(1)",
            tool_type="custom",
            subagent_trajectory_id="t-2",
            ext_json="{}",
        ),
    ),
    "outcome": Outcome(
        call_id="c1",
        name="calc",
        message=Message(role="tool", call_id="c1"),
        result="error",
        exit_code=0xC0000005,
        error=Error(type="ValueError", message="oops"),
        decision="rejected",
        subagent_trajectory_id="t-2",
        ext_json='{"k":1}',
    ),
    "reward": Reward(
        value=0.0,
        source_name="checker",
        evaluator_version="1",
        rule="tests",
        evidence=("019aa5c0-0000-7000-8000-000000000003",),
        confidence=0.75,
        observed_at=WHEN,
        dimension="outcome",
    ),
    "preference": Reward(
        target_kind="event",
        target_event_id="019aa5c0-0000-7000-8000-000000000001",
        compared_to="019aa5c0-0000-7000-8000-000000000002",
        value=1.0,
        label="better",
        scale="preference",
        range_min=-1.0,
        range_max=1.0,
        token_start=0,
        token_end=3,
        source_name="judge",
        observed_at=WHEN,
        observed_at_nanos=789,
    ),
    "reward_without_time": Reward(critique="too long", source_name="judge"),
    "feedback": Feedback(
        target_kind="step",
        target_step=2,
        type="correction",
        value=2.0,
        scale="stars",
        range_min=1.0,
        range_max=5.0,
        dimension="tone",
        text="no, 91",
        actor="customer",
        observed_at=WHEN,
    ),
    "annotation": Annotation(
        target_kind="event",
        target_event_id="019aa5c0-0000-7000-8000-000000000001",
        name="failure",
        value_json='"tool"',
        annotator="human",
        observed_at=WHEN,
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
        occurred_at_nanos=998,
        ended_at=WHEN,
        ended_at_nanos=999,
        session_id="s-1",
        end_user_id="u-1",
        task_id="task-1",
        caused_by=("019aa5c0-0000-7000-8000-000000000000",),
        group_id="group-1",
        parent_event_id="019aa5c0-0000-7000-8000-000000000003",
        parent_trajectory_id="t-0",
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        span_id="00f067aa0ba902b7",
        parent_span_id="b7ad6b7169203331",
        source_step_id="7",
        links=(
            Link(relation="copied_from", trajectory_id="t-0", ext_json="{}"),
            Link(relation="follows", event_id="e", trace_id="t", span_id="s"),
            Link(relation="continues", trajectory_id="t-9", inferred_by="history", confidence=0.99),
        ),
        spawned_by="019aa5c0-0000-7000-8000-000000000004",
        agent=Agent(id="desk", version="3", framework="openai"),
        source=Source(format="sdk", version="0.1.0"),
        versions=Versions(harness="h1", weights="v2"),
        usage=Usage(input_tokens=3, output_tokens=3, cache_write_tokens=2),
        cost=Cost(amount=0.25, price_id="p-1"),
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
            engine="atdp-governance 0.1.0; presidio-analyzer 2.2.366",
            principal="key:0123456789ab",
            principal_role="agent",
            self_reward="analytics",
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


@pytest.mark.parametrize("name", BODIES)
def test_every_golden_event_keeps_the_contract(name: str) -> None:
    assert check(golden_event(0, BODIES[name])) == ()


def test_every_kind_has_a_golden_record() -> None:
    assert {type(body) for body in BODIES.values()} == set(KIND_OF_BODY)
    assert dataclasses.is_dataclass(golden_event(0, BODIES["gap"]))
