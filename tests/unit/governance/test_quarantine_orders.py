"""Orders about quarantined records: their form, their signature, and who a record is from."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from atdp.governance.decisions import OrderFacts, RawRecord
from atdp.governance.errors import SecretsError
from atdp.governance.home_secrets import ORDER_KEYS, open_secrets
from atdp.governance.key_rotation import rotate_master_key
from atdp.governance.quarantine import open_raw
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.release.order import (
    BadPlace,
    QuarantineOrder,
    QuarantinePlace,
    read_order,
)
from atdp.governance.stage.order_execution import _sender_of
from atdp.governance.testing import memory_secrets
from atdp.runtime import Home
from atdp.runtime.keys import KeyStore
from atdp.schemas import REDELIVERY, decode_record, schemas

from .raw_records import NOW, raw

ORDER = QuarantineOrder(
    order_id="o",
    action="release",
    tenant_id="acme",
    quarantine_partition=0,
    quarantine_offset=17,
    source_topic="raw",
    source_partition=1,
    source_offset=7,
    actor="key:k",
    reason="",
    ordered_at=NOW,
)


def quarantined(governor: RecordGovernor, record: RawRecord) -> dict[str, Any]:
    """Return the quarantine record of a raw record."""
    output = governor.decide(record, NOW).quarantined
    assert output is not None
    return decode_record(output.value)[1]


def order_facts(**changes: Any) -> OrderFacts:
    return replace(OrderFacts(order_id="o", actor="key:k", place="1/3", tenant="acme"), **changes)


def version_1(record: dict[str, Any]) -> dict[str, Any]:
    """Return a quarantine record as it is read when version 1 of the schema wrote it."""
    (schema,) = (
        each for each in schemas().values() if (each.name, each.version) == ("quarantine", 1)
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema.parsed, record)
    return decode_record(b"\xc3\x01" + schema.fingerprint + buffer.getvalue())[1]


def test_places_are_read_with_and_without_the_topic() -> None:
    place = QuarantinePlace(0, 17)
    assert str(place) == "atdp.events.quarantine/0/17"
    assert QuarantinePlace.parse(str(place)) == QuarantinePlace.parse("0/17") == place
    for wrong in ("17", "0/-1", "other/0/17", "a/b/c", "", "atdp.events.quarantine/0/17/1"):
        with pytest.raises(BadPlace):
            QuarantinePlace.parse(wrong)


def test_only_an_order_that_this_home_has_signed_is_read() -> None:
    keys, other = memory_secrets(), memory_secrets()
    value, headers = ORDER.encode(), ORDER.headers(keys)
    assert read_order(value, headers, keys) == ORDER
    assert other.current([ORDER_KEYS])
    assert read_order(value, headers, other) is None
    assert read_order(replace(ORDER, action="discard").encode(), headers, keys) is None
    assert read_order(value, [], keys) is None


def test_after_a_rotation_only_notes_are_believed_under_the_earlier_key(tmp_path: Path) -> None:
    home = Home(tmp_path)
    note = ORDER.done(NOW)
    with open_secrets(home) as worker:
        signed = [(each, each.headers(worker)) for each in (ORDER, note)]
        rotate_master_key(home, NOW)
        worker.refresh()
        assert [read_order(each.encode(), headers, worker) for each, headers in signed] == [
            None,
            note,
        ]
        assert read_order(ORDER.encode(), ORDER.headers(worker), worker) == ORDER


def test_a_worker_knows_an_order_that_was_signed_a_moment_after_a_rotation(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with open_secrets(home) as worker:
        assert ORDER.headers(worker)
        rotate_master_key(home, NOW)
        with open_secrets(home) as command:
            headers = ORDER.headers(command)
        assert read_order(ORDER.encode(), headers, worker) == ORDER


def test_a_quarantined_record_is_opened_as_it_was_read(
    governor: RecordGovernor, store: KeyStore
) -> None:
    record = raw(store.create("acme", "analyst")[0])
    record = replace(record, headers=[*record.headers, (REDELIVERY, b"1")], appended=True)
    kept = quarantined(governor, record)
    assert open_raw(governor.secrets, kept) == record
    sealed = kept["envelope_encrypted"]
    assert all(value not in sealed for _, value in record.headers if len(value) > 1)
    with pytest.raises(SecretsError):
        open_raw(governor.secrets, {**kept, "envelope_encrypted": kept["payload_encrypted"]})


def test_a_header_that_cannot_be_valid_is_not_kept(
    governor: RecordGovernor, store: KeyStore
) -> None:
    record = raw(store.create("acme", "agent")[0])
    (name, key_id), signature = record.headers
    padded = replace(record, headers=[(name, key_id + b"x" * 1_000_000), signature])
    opened = open_raw(governor.secrets, quarantined(governor, padded))
    assert [each for each, _ in opened.headers] == [signature[0]]
    assert quarantined(governor, opened)["reason"] == "unsigned"


@pytest.mark.parametrize(
    ("changes", "sender"),
    [
        ({"event_id": "e", "reason": "leaf_too_long"}, "acme"),
        ({"reason": "no_policy"}, "acme"),
        ({"reason": "undecodable"}, "acme"),
        ({"reason": "undecodable", "tenant_id": "unknown"}, None),
        ({"reason": "unsigned"}, None),
        ({"reason": "tenant_mismatch"}, None),
        ({"reason": "internal_error"}, None),
    ],
)
def test_a_record_of_version_1_has_a_known_sender_only_if_its_reason_came_after_authentication(
    governor: RecordGovernor, store: KeyStore, changes: dict[str, Any], sender: str | None
) -> None:
    record = quarantined(governor, raw(store.create("acme", "analyst")[0]))
    old = version_1({**record, "tenant_id": "acme", "event_id": None, **changes})
    assert old["envelope_encrypted"] is None
    assert _sender_of(old) == sender
    assert _sender_of({**record, **changes}) is None, "version 2 keeps the headers"


def test_a_record_without_headers_passes_only_as_its_known_sender(
    governor: RecordGovernor, store: KeyStore
) -> None:
    record = replace(raw(store.create("acme", "agent")[0]), headers=[])

    def decided(**changes: Any) -> tuple[str, str | None]:
        decision = governor.decide(record, NOW, order=order_facts(**changes))
        return decision.decision, decision.reason

    assert decided() == ("quarantined", "unsigned")
    assert decided(sender="acme") == ("passed", None)
    assert decided(sender="globex") == ("quarantined", "tenant_mismatch")
