"""An event that breaks the contract goes to quarantine, under the rules that it breaks."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from atdp.governance.decisions import RawRecord
from atdp.governance.record_governor import RecordGovernor
from atdp.runtime.keys import ApiKey, KeyStore
from atdp.schemas import (
    Action,
    Body,
    Event,
    Feedback,
    Generation,
    Reward,
    RuleExample,
    SigningKey,
    TenantId,
    decode_record,
    encode,
    encode_plainly,
    encode_record,
    event_from_json,
    event_to_record,
    record_key,
    rule_examples,
    signed_headers,
)

from .raw_records import NOW

EXAMPLES = list(rule_examples())


def record_of(key: ApiKey, place: bytes, value: bytes) -> RawRecord:
    return RawRecord(
        key=place,
        value=value,
        headers=signed_headers(SigningKey.parse(key), "raw", place, value),
        topic="raw",
        partition=1,
        offset=7,
        timestamp=NOW,
    )


def encoded(examples: list[RuleExample]) -> Iterator[tuple[RuleExample, Event, bytes]]:
    for example in examples:
        event = event_from_json(example.document)
        yield example, event, encode(event)


def test_every_bad_example_is_quarantined_naming_its_rule_and_no_value(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    bad = [example for example in EXAMPLES if not example.good]
    judged = 0
    for example, event, value in encoded(bad):
        if event.tenant_id != "acme":
            continue  # refused before: the key belongs to another tenant
        decision = governor.decide(record_of(key, event.key, value), NOW)
        assert (decision.reason, decision.governed) == ("contract_violation", None), example
        assert decision.quarantined is not None
        detail = decode_record(decision.quarantined.value)[1]["detail"]
        assert example.rule_id in detail
        assert detail.startswith("the event breaks rules of the contract: ")
        judged += 1
    assert judged > len(bad) * 0.9


def test_every_good_example_passes(governor: RecordGovernor, store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    for example, event, value in encoded([each for each in EXAMPLES if each.good]):
        if event.tenant_id == "acme":
            decision = governor.decide(record_of(key, event.key, value), NOW)
            assert decision.governed is not None, (example, decision.reason)


def test_no_value_of_an_event_is_in_what_the_refusal_writes(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    good = next(event for example, event, _ in encoded(EXAMPLES) if example.good)
    secret = "Jane Roe of Main Street\n"
    bad = dataclasses.replace(good, tenant_id=TenantId("acme"), session_id=secret, ext_json=secret)
    decision = governor.decide(record_of(key, bad.key, encode(bad)), NOW)
    assert decision.reason == "contract_violation"
    assert decision.quarantined is not None
    assert b"Jane" not in decision.quarantined.value + decision.audit.value


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_that_no_clock_gives_is_dated_by_its_arrival_in_the_audit(
    governor: RecordGovernor, store: KeyStore, year: int
) -> None:
    key, _ = store.create("acme", "agent")
    good = next(event for example, event, _ in encoded(EXAMPLES) if example.good)
    bad = dataclasses.replace(
        good, tenant_id=TenantId("acme"), occurred_at=datetime(year, 1, 1, tzinfo=UTC)
    )
    decision = governor.decide(record_of(key, bad.key, encode(bad)), NOW)
    assert decision.reason == "contract_violation"
    assert decode_record(decision.audit.value)[1]["occurred_at"] == NOW


@pytest.mark.parametrize(
    "change",
    [{"kind": "unknown"}, {"kind": "gap"}, {"gap": {"code": "x"}}],
    ids=["unknown kind", "kind of another body", "two bodies"],
)
def test_a_body_that_its_kind_does_not_name_is_quarantined(
    governor: RecordGovernor, store: KeyStore, change: dict[str, Any]
) -> None:
    key, _ = store.create("acme", "agent")
    good = next(event for example, event, _ in encoded(EXAMPLES) if example.good)
    record = event_to_record(dataclasses.replace(good, tenant_id=TenantId("acme"))) | change
    decision = governor.decide(
        record_of(key, record_key("acme", record["trajectory_id"]), encode_record("event", record)),
        NOW,
    )
    assert decision.reason == "contract_violation"


ODD_NUMBERS = (float("nan"), float("inf"), float("-inf"))
BAD_BODIES: list[tuple[str, Body]] = [
    *(("Reward.finite", Reward(source_name="s", value=odd)) for odd in ODD_NUMBERS),
    *(("Feedback.finite", Feedback(type="rating", value=odd)) for odd in ODD_NUMBERS),
    *(
        ("Generation.arrays", Action(type="generation", generation=generation))
        for generation in (
            Generation(output_token_ids=(1, 2), output_logprobs=(-0.5,)),
            Generation(output_token_ids=(1, 2), loss_mask=(1,)),
            Generation(prompt_token_ids=(1,), output_logprobs=(-0.5,)),
            Generation(output_logprobs=(-0.5,)),
            Generation(loss_mask=(1,)),
        )
    ),
]


@pytest.mark.parametrize(("rule", "body"), BAD_BODIES)
def test_numbers_that_no_mean_or_loss_can_use_are_quarantined(
    governor: RecordGovernor, store: KeyStore, rule: str, body: Body
) -> None:
    key, _ = store.create("acme", "agent")
    good = next(event for example, event, _ in encoded(EXAMPLES) if example.good)
    bad = dataclasses.replace(good, tenant_id=TenantId("acme"), body=body)
    decision = governor.decide(record_of(key, bad.key, encode_plainly(bad)), NOW)
    assert (decision.reason, decision.governed) == ("contract_violation", None)
    assert decision.quarantined is not None
    detail = decode_record(decision.quarantined.value)[1]["detail"]
    assert detail == f"the event breaks rules of the contract: {rule}"
