"""The pure core: nothing planted comes out, governing twice is governing once, and any process gives the same bytes."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from atdp.governance.errors import EventDropped, Refusal
from atdp.governance.govern import GovernedEvent, TenantGate
from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy
from atdp.governance.policy.document import ConsentTerms, TenantTerms
from atdp.governance.redact.pseudonyms import TenantKey, is_token
from atdp.governance.walk.fields import FieldClass, class_of, enum_fields
from atdp.governance.walk.strings import StringGovernor
from atdp.schemas import decode_record, encode_record

from .planted import CANARY_HOST, ENCODINGS, KINDS, NOW, address, record

KEY = TenantKey(b"k" * 32)


class NoTokenizers:
    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> None:
        return None


@pytest.fixture
def gate(default_policy: CompiledPolicy) -> TenantGate:
    return gate_of(default_policy)


def gate_of(policy: CompiledPolicy, terms: TenantTerms | None = None) -> TenantGate:
    return TenantGate.of("acme", policy, terms or TenantTerms(), KEY, NoTokenizers())


def with_entities(document: PolicyDocument, **rules: dict[str, Any]) -> CompiledPolicy:
    data = document.model_dump(mode="json")
    data["entities"].update(rules)
    return compile_policy(PolicyDocument.model_validate(data))


def everything(event: GovernedEvent) -> str:
    """All that leaves the gate: the encoded record and what the audit says about it."""
    return encode_record("event", event.record).decode("utf-8", "replace") + repr(event.found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_canary_survives_in_any_field_of_any_kind_in_any_encoding(
    gate: TenantGate, kind: str, encoding: str
) -> None:
    planted = record(kind, ENCODINGS[encoding])
    assert CANARY_HOST in encode_record("event", planted).decode("utf-8", "replace")
    if encoding == "json 8 deep":
        # An identifier cannot be that long; such an event does not come out at all.
        with pytest.raises(Refusal, match="identifier_too_long"):
            gate.govern(planted, NOW)
        planted = _with_short_identifiers(planted)
    governed = gate.govern(planted, NOW)
    assert CANARY_HOST not in everything(governed)


def test_the_canaries_would_be_seen_if_nothing_were_scanned(gate: TenantGate) -> None:
    """Guard: with every detector switched off, the same check finds them."""
    blind = dataclasses.replace(gate.policy, scanner=_Blind(), key_entities={})  # type: ignore[arg-type]
    assert CANARY_HOST in everything(gate_of(blind).govern(record("observation", address), NOW))


def _with_short_identifiers(planted: dict[str, Any]) -> dict[str, Any]:
    def shortened(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {
                key: shortened(item, f"{path}.{key}" if path else key)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [shortened(item, path) for item in value]
        long = (
            isinstance(value, str) and len(value) > 1_000 and class_of(path) is not FieldClass.TEXT
        )
        return address(1) if long else value

    shorter: dict[str, Any] = shortened(planted, "")
    return shorter


class _Blind:
    def scan(self, text: str, key: str = "") -> tuple[()]:
        return ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_governing_twice_is_governing_once(gate: TenantGate, kind: str, encoding: str) -> None:
    once = gate.govern(_with_short_identifiers(record(kind, ENCODINGS[encoding])), NOW).record
    again = gate.govern(decode_record(encode_record("event", once))[1], NOW)
    assert again.record == decode_record(encode_record("event", once))[1]
    assert not again.changed


KEYS = st.sampled_from(["zip", "email", "note", "a@b.org", "password"])
JSON = st.recursive(
    st.text(max_size=12) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
).map(json.dumps)


@settings(max_examples=150)
@given(st.text(max_size=80) | JSON)
def test_any_string_is_stable_after_one_pass(default_policy: CompiledPolicy, text: str) -> None:
    governor = StringGovernor(default_policy, KEY)
    once = governor.text(text, "t").text
    assert once is not None
    assert StringGovernor(default_policy, KEY).text(once, "t").text == once


def test_json_stays_json_with_its_keys_types_and_style(gate: TenantGate) -> None:
    texts = [
        '{"zip": "19122", "n": [1, 2.50, true, null], "order": "#W123"}',
        '{"zip":"19122","n":1}',
        '{\n  "zip": "19122",\n  "n": 1\n}',
    ]
    for text in texts:
        governed = gate.strings.text(text, "t").text
        assert governed is not None
        before, after = json.loads(text), json.loads(governed)
        assert is_token(after.pop("zip"))
        before.pop("zip")
        assert list(after.items()) == list(before.items())
        assert re.sub(r"<[^>]+>", "19122", governed).replace("2.5,", "2.50,") == text


def test_text_without_findings_is_returned_as_it_was_to_the_last_blank(gate: TenantGate) -> None:
    text = '{ "n" : 1.0 ,\n "m":[ 1e3 ] }'
    assert gate.strings.text(text, "t").text == text


def test_two_keys_that_become_one_are_both_kept(default_document: PolicyDocument) -> None:
    policy = with_entities(default_document, EMAIL_ADDRESS={"do": "replace"})
    governed = gate_of(policy).strings.text('{"a@x.org": 1, "b@x.org": 2}', "t").text
    assert json.loads(governed or "") == {"<EMAIL_ADDRESS>": 1, "<EMAIL_ADDRESS>#2": 2}


def test_a_number_under_a_telling_key_and_a_card_number_as_number_are_redacted(
    gate: TenantGate,
) -> None:
    governed = json.loads(
        gate.strings.text('{"zip": 19122, "card": 4111111111111111, "count": 12345}', "t").text
        or ""
    )
    assert is_token(governed["zip"])
    assert is_token(governed["card"])
    assert governed["count"] == 12345


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": "\\ud800"}', "lone_surrogate"),
        ("[" * 5_000 + "]" * 5_000, "json_depth"),
        ("[" * 100_000, "json_depth"),
        ("x" * 400_001, "leaf_too_long"),
    ],
)
def test_what_cannot_be_read_safely_is_refused(gate: TenantGate, text: str, reason: str) -> None:
    with pytest.raises(Refusal) as refusal:
        gate.strings.text(text, "t")
    assert refusal.value.reason == reason


def test_json_deeper_than_the_policy_allows_is_refused(gate: TenantGate) -> None:
    text = '"x@y.org"'
    for _ in range(9):
        text = json.dumps([text])
    with pytest.raises(Refusal, match="json_depth"):
        gate.strings.text(text, "t")


def test_identifiers_keep_joins_across_events_and_fields(gate: TenantGate) -> None:
    first = gate.govern(record("reward", lambda n: "run:bob@corp.io:1"), NOW).record
    other = gate.govern(record("trajectory_ended", lambda n: "run:bob@corp.io:1"), NOW).record
    assert first["trajectory_id"] == other["trajectory_id"] == other["parent_trajectory_id"]
    assert first["trajectory_id"].startswith("run:<EMAIL_ADDRESS_")


def test_uuids_and_digests_are_left_alone_and_the_context_hash_is_keyed(gate: TenantGate) -> None:
    uuid, digest = "01a19467-e811-70be-94a7-ab4404411112", "a1" * 32
    planted = record("observation", lambda n: "x")
    planted["event_id"] = planted["trajectory_id"] = uuid
    planted["caused_by"] = [uuid]
    planted["observation"]["tools_hash"] = planted["observation"]["context_hash"] = digest
    governed = gate.govern(planted, NOW).record
    assert (governed["event_id"], governed["trajectory_id"], governed["caused_by"]) == (
        uuid,
        uuid,
        [uuid],
    )
    assert governed["observation"]["tools_hash"] == digest
    assert governed["observation"]["context_hash"].startswith("keyed:")
    assert digest not in governed["observation"]["context_hash"]


def test_a_stamp_that_a_producer_forged_is_replaced(gate: TenantGate) -> None:
    governed = gate.govern(record("action", address), NOW).record["governance"]
    assert governed["policy_hash"] == gate.policy.content_hash
    assert governed["governed_at"] == NOW
    assert {one["entity"] for one in governed["findings"]} <= set(gate.policy.operators)


def test_an_event_whose_body_is_not_its_kinds_is_refused(gate: TenantGate) -> None:
    planted = record("observation", address)
    planted["kind"] = "reward"
    with pytest.raises(Refusal, match="bad_body"):
        gate.govern(planted, NOW)


def test_fields_and_events_can_be_dropped_by_policy(default_document: PolicyDocument) -> None:
    data = default_document.model_dump(mode="json")
    data["fields"].insert(0, {"path": "ext_json", "do": "drop_field"})
    data["entities"]["EMAIL_ADDRESS"] = {"do": "drop_field"}
    policy = compile_policy(PolicyDocument.model_validate(data))
    governed = gate_of(policy).govern(record("observation", address), NOW).record
    assert governed["ext_json"] is None
    part = governed["observation"]["messages"][0]
    assert part["parts"][0]["text"] is None
    assert part["role"] == ""
    assert is_token(governed["trajectory_id"])

    with pytest.raises(EventDropped, match="EMAIL_ADDRESS"):
        gate_of(with_entities(default_document, EMAIL_ADDRESS={"do": "drop_event"})).govern(
            record("observation", address), NOW
        )


@pytest.mark.parametrize(
    ("registered", "said", "purposes", "expected"),
    [
        (None, "unknown", [], (True, "granted", "ok")),
        (None, "granted", [], (True, "granted", "ok")),
        (None, "withdrawn", [], (False, "withdrawn", "consent_withdrawn")),
        ("withdrawn", "granted", [], (False, "withdrawn", "consent_withdrawn")),
        ("perhaps", "unknown", [], (False, "unknown", "consent_unknown")),
        ("granted", "unknown", ["analytics"], (False, "granted", "purpose_not_allowed")),
    ],
)
def test_training_needs_everyones_consent(
    default_policy: CompiledPolicy,
    registered: str | None,
    said: str,
    purposes: list[str],
    expected: tuple[bool, str, str],
) -> None:
    terms = TenantTerms(consent=ConsentTerms(train=registered) if registered else None)
    planted = record("reward", lambda n: "x")
    planted["governance"].update(consent=said, purposes=purposes, policy_hash=None)
    stamp = gate_of(default_policy, terms).govern(planted, NOW).record["governance"]
    assert (stamp["training_eligible"], stamp["consent"], stamp["eligibility_reason"]) == expected
    assert ("train" in stamp["purposes"]) is expected[0]


def test_an_event_that_was_governed_for_no_purpose_gets_none_by_being_governed_again(
    gate: TenantGate,
) -> None:
    planted = record("reward", lambda n: "x")
    planted["governance"].update(purposes=["marketing"], policy_hash=None)
    once = gate.govern(planted, NOW).record
    assert once["governance"]["purposes"] == []
    assert gate.govern(once, NOW).record["governance"]["purposes"] == []


def test_enum_fields_are_read_from_the_schema() -> None:
    assert {
        "kind",
        "status",
        "governance.consent",
        "outcome.message.parts.type",
        "feedback.target_kind",
    } <= enum_fields()


def test_two_processes_with_other_hash_seeds_give_the_same_bytes() -> None:
    script = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from planted import *\n"
        "from atdp.governance.govern import TenantGate\n"
        "from atdp.governance.policy import compile_policy, parse_policy\n"
        "from atdp.governance.policy.document import TenantTerms\n"
        "from atdp.governance.policy.store import default_policy_text\n"
        "from atdp.governance.redact.pseudonyms import TenantKey\n"
        "from atdp.schemas import encode_record\n"
        "policy = compile_policy(parse_policy(default_policy_text(), where='x'))\n"
        "gate = TenantGate.of('acme', policy, TenantTerms(), TenantKey(b'k' * 32), None)\n"
        "govern = lambda plant: encode_record('event', gate.govern(record('observation', plant), NOW).record)\n"
        "out = [govern(plant) for name, plant in ENCODINGS.items() if name != 'json 8 deep']\n"
        "print(hashlib.sha256(b''.join(out)).hexdigest())\n"
    )
    folder = os.path.dirname(__file__)  # noqa: PTH120
    digests = {
        subprocess.run(
            [sys.executable, "-c", script, folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["reward", "feedback"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_no_number_does_not_pass(
    gate: TenantGate, kind: str, value: float
) -> None:
    event = record(kind, lambda number: "x")
    gate.govern(event, NOW)
    event[kind]["value"] = value
    with pytest.raises(Refusal, match=rf"not_finite: \$\.{kind}\.value"):
        gate.govern(event, NOW)
    event[kind]["value"] = None
    gate.govern(event, NOW)
