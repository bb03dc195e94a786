"""Tenant governors: no planted value comes out, and the result depends on the arguments alone."""

import dataclasses
import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from atdp.governance.consent import permission
from atdp.governance.detect.key_names import KeyNames
from atdp.governance.errors import EventDropped, Refusal
from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy
from atdp.governance.policy.document import FidelityTerms
from atdp.governance.redact.pseudonyms import is_pseudonym
from atdp.governance.tenant_governor import GovernedEvent, TenantGovernor
from atdp.governance.token_fidelity import TokenDecision
from atdp.governance.walk.string_fields import FieldClass, class_of, string_field
from atdp.schemas import (
    ContextFold,
    content_hash,
    decode_record,
    encode,
    encode_record,
    record_to_event,
)
from atdp.sdk import MemorySender, Recorder

from .governors import governor_of, with_entities
from .planted import CANARY_HOST, ENCODINGS, KINDS, NOW, address, record


@pytest.fixture
def governor(default_policy: CompiledPolicy) -> TenantGovernor:
    return governor_of(default_policy)


def everything(event: GovernedEvent) -> str:
    """Return everything that leaves governance: the encoded record and the audit's findings."""
    value = encode_record("event", event.record).decode("utf-8", "replace")
    return value + repr(event.replacements)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_canary_survives_in_any_field_of_any_kind_in_any_encoding(
    governor: TenantGovernor, kind: str, encoding: str
) -> None:
    planted = record(kind, ENCODINGS[encoding])
    assert CANARY_HOST in encode_record("event", planted).decode("utf-8", "replace")
    if encoding == "json 8 deep":
        # An identifier cannot be that long; such an event does not come out at all.
        with pytest.raises(Refusal, match="identifier_too_long"):
            governor.govern(planted, NOW)
        planted = _with_short_identifiers(planted)
    governed = governor.govern(planted, NOW)
    assert CANARY_HOST not in everything(governed)


def test_the_canaries_would_be_seen_if_nothing_were_scanned(governor: TenantGovernor) -> None:
    """Checks the check: without detectors the canaries come out."""
    no_scanner: Any = _NoScanner()
    blind = dataclasses.replace(governor.policy, scanner=no_scanner, keys=KeyNames(()))
    assert CANARY_HOST in everything(governor_of(blind).govern(record("observation", address), NOW))


def _with_short_identifiers(planted: dict[str, Any]) -> dict[str, Any]:
    def shortened(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {
                key: shortened(item, f"{path}.{key}" if path else key)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [shortened(item, path) for item in value]
        of_any_length = class_of(path) in {FieldClass.TEXT, FieldClass.LABEL}
        long = isinstance(value, str) and len(value) > 1_000 and not of_any_length
        return address(1) if long else value

    shorter: dict[str, Any] = shortened(planted, "")
    return shorter


class _NoScanner:
    def scan(self, *_: Any, **__: Any) -> tuple[()]:
        return ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_governing_twice_is_governing_once(
    default_policy: CompiledPolicy, kind: str, encoding: str
) -> None:
    governor = governor_of(default_policy)
    once = governor.govern(_with_short_identifiers(record(kind, ENCODINGS[encoding])), NOW).record
    again = governor.govern(decode_record(encode_record("event", once))[1], NOW)
    expected = decode_record(encode_record("event", once))[1]
    # The values that the first pass has learned are surrogates now, which teach nothing.
    expected["governance"]["learned_version"] = 0
    assert again.record == expected
    assert not again.changed


def test_identifiers_keep_joins_across_events_and_fields(governor: TenantGovernor) -> None:
    first = governor.govern(record("reward", lambda n: "run:bob@corp.io:1"), NOW).record
    other = governor.govern(record("trajectory_ended", lambda n: "run:bob@corp.io:1"), NOW).record
    assert first["trajectory_id"] == other["trajectory_id"] == other["parent_trajectory_id"]
    assert first["trajectory_id"].startswith("run:<EMAIL_ADDRESS_")


def test_uuids_and_digests_are_left_alone(
    governor: TenantGovernor,
) -> None:
    uuid, digest = "01a19467-e811-70be-94a7-ab4404411112", "a1" * 32
    planted = record("observation", lambda n: "x")
    planted["event_id"] = planted["trajectory_id"] = uuid
    planted["caused_by"] = [uuid]
    planted["session_id"] = random_id = "be71096123456769a1b2c3d4e5f60718"  # begins as an IBAN
    planted["observation"]["tools_hash"] = planted["observation"]["context_hash"] = digest
    governed = governor.govern(planted, NOW).record
    assert (governed["event_id"], governed["trajectory_id"], governed["caused_by"]) == (
        uuid,
        uuid,
        [uuid],
    )
    assert governed["session_id"] == random_id
    assert governed["observation"]["tools_hash"] == digest
    assert governed["observation"]["context_hash"] == digest


def test_a_stamp_that_a_producer_forged_is_replaced(governor: TenantGovernor) -> None:
    governed = governor.govern(record("action", address), NOW).record["governance"]
    assert governed["policy_hash"] == governor.policy.content_hash
    assert governed["governed_at"] == NOW
    assert governed["engine"] == governor.policy.engine
    assert {one["entity"] for one in governed["findings"]} <= set(governor.policy.operators)


def test_the_stamp_names_the_engine_that_decided_last(governor: TenantGovernor) -> None:
    older = governor_of(dataclasses.replace(governor.policy, engine="atdp-governance 0.0.1"))
    planted = {**record("action", address), "governance": None}
    first = older.govern(planted, NOW).record
    assert first["governance"]["engine"] == "atdp-governance 0.0.1"
    again = governor.govern(decode_record(encode_record("event", first))[1], NOW).record
    assert again["governance"]["engine"] == governor.policy.engine
    assert governor.policy.engine.startswith(f"atdp-governance {version('atdp-governance')}; ")


def test_fields_and_events_can_be_dropped_by_policy(default_document: PolicyDocument) -> None:
    data = default_document.model_dump(mode="json")
    data["fields"].insert(0, {"path": "ext_json", "do": "drop_field"})
    data["entities"]["EMAIL_ADDRESS"] = {"do": "drop_field"}
    policy = compile_policy(PolicyDocument.model_validate(data))
    governed = governor_of(policy).govern(record("observation", address), NOW).record
    assert governed["ext_json"] is None
    part = governed["observation"]["messages"][0]
    assert part["parts"][0]["text"] is None
    assert part["role"] == ""
    assert is_pseudonym(governed["trajectory_id"])

    with pytest.raises(EventDropped, match="EMAIL_ADDRESS"):
        governor_of(with_entities(default_document, EMAIL_ADDRESS={"do": "drop_event"})).govern(
            record("observation", address), NOW
        )


@pytest.mark.parametrize(
    ("registered", "given", "purposes", "expected"),
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
    given: str,
    purposes: list[str],
    expected: tuple[bool, str, str],
) -> None:
    planted = record("reward", lambda n: "x")
    planted["governance"].update(consent=given, purposes=purposes, policy_hash=None)
    stamp = (
        governor_of(default_policy, lambda data, purpose, now: registered)
        .govern(planted, NOW)
        .record["governance"]
    )
    assert (stamp["training_eligible"], stamp["consent"], stamp["eligibility_reason"]) == expected
    assert ("train" in stamp["purposes"]) is expected[0]


def test_an_event_that_was_governed_for_no_purpose_gets_none_by_being_governed_again(
    governor: TenantGovernor,
) -> None:
    planted = record("reward", lambda n: "x")
    planted["governance"].update(purposes=["marketing"], policy_hash=None)
    once = governor.govern(planted, NOW).record
    assert once["governance"]["purposes"] == []
    assert governor.govern(once, NOW).record["governance"]["purposes"] == []


@pytest.mark.parametrize(
    "path",
    [
        "kind",
        "status",
        "governance.consent",
        "outcome.message.parts.type",
        "feedback.target_kind",
    ],
)
def test_words_of_enums_are_not_scanned(path: str) -> None:
    assert not string_field(path).scanned


def test_two_processes_with_other_hash_seeds_give_the_same_bytes() -> None:
    script = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from planted import *\n"
        "from atdp.governance.tenant_governor import TenantGovernor\n"
        "from atdp.governance.policy import compile_policy, parse_policy\n"
        "from atdp.governance.consent import nothing_registered\n"
        "from atdp.governance.policy.default_policy import default_policy_text\n"
        "from atdp.governance.redact.pseudonyms import TenantKey\n"
        "from atdp.schemas import encode_record\n"
        "policy = compile_policy(parse_policy(default_policy_text(), where='x'))\n"
        "key = TenantKey(b'k' * 32)\n"
        "governor = TenantGovernor.of('acme', policy, nothing_registered, key, None)\n"
        "def govern(plant):\n"
        "    governed = governor.govern(record('observation', plant), NOW)\n"
        "    return encode_record('event', governed.record)\n"
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


@pytest.mark.parametrize("kind", ["observation", "action", "outcome", "reward"])
def test_the_stamp_has_the_hash_of_the_governed_messages_whatever_the_producer_claimed(
    governor: TenantGovernor, kind: str
) -> None:
    planted = record(kind, address)
    claimed = {**planted, "governance": {**(planted["governance"] or {}), "content_hash": "0" * 64}}
    once = governor.govern(claimed, NOW).record
    assert once["governance"]["content_hash"] == content_hash(once)
    assert once["governance"]["content_hash"] != content_hash(planted) or kind == "reward"
    assert (once["governance"]["content_hash"] is None) == (kind == "reward")
    twice = governor.govern(once, NOW).record
    assert twice["governance"]["content_hash"] == once["governance"]["content_hash"]
    _, stored = decode_record(encode_record("event", once))
    assert content_hash(stored) == once["governance"]["content_hash"]


def test_a_fold_of_governed_events_is_proved_by_the_hashes_of_their_producer(
    governor: TenantGovernor,
) -> None:
    sender = MemorySender()
    recorder = Recorder(
        tenant="acme", api_key="atdp_0123456789ab_secret", sender=sender, durability="memory"
    )
    trajectory = recorder.trajectory()
    chat = [{"role": "user", "content": f"write to {address(1)}"}]
    trajectory.observe(chat)
    trajectory.act_message("done")
    trajectory.observe([*chat, {"role": "assistant", "content": "done"}, chat[0]])
    recorder.close()
    governed = [
        record_to_event(governor.govern(decode_record(encode(event))[1], NOW).record)
        for event in sender.events
    ]
    fold = ContextFold.of(governed)
    assert fold.messages[0] != ContextFold.of(sender.events).messages[0]
    assert len(fold.messages) == 3
    assert fold.intact
    assert not ContextFold.of([governed[0], *governed[2:]]).intact


@pytest.mark.parametrize(
    ("limits", "fidelity", "reason", "replay"),
    [
        ({}, "exact", "ok", True),
        ({}, "context_changed", "ok", True),
        ({}, "spliced", "ok", True),
        ({}, "dropped", "token_fidelity_dropped", True),
        ({}, "unknown", "no_token_ids", True),
        ({"train": "exact"}, "context_changed", "token_fidelity_context_changed", True),
        ({"train": "context_changed"}, "spliced", "token_fidelity_spliced", True),
        ({"train": "dropped"}, "dropped", "ok", True),
        ({"train": "dropped"}, "unknown", "no_token_ids", True),
        ({"replay": "exact"}, "spliced", "ok", False),
        ({"replay": "spliced"}, "unknown", "no_token_ids", False),
    ],
)
def test_the_policy_limits_by_purpose_how_much_redaction_may_have_changed_the_tokens(
    default_policy: CompiledPolicy, limits: dict[str, str], fidelity: str, reason: str, replay: bool
) -> None:
    document = default_policy.document.model_copy(
        update={"min_fidelity": FidelityTerms.model_validate(limits)}
    )
    allowed = permission(
        dataclasses.replace(default_policy, document=document),
        "acme",
        registered=lambda purpose: None,
        event_consent="unknown",
        event_purposes=None,
        tokens=TokenDecision(fidelity),
    )
    assert (allowed.reason, allowed.eligible) == (reason, reason == "ok")
    assert ("replay" in allowed.purposes) is replay
