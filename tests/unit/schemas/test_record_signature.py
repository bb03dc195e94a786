"""A record is tied to a key, a topic and a Kafka key without a secret being on the wire."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.schemas import (
    KEY_ID,
    REDELIVERY,
    SIGNATURE,
    SchemaError,
    SigningKey,
    header,
    signed_headers,
    verify_record,
)

SECRET = "secret_with_underscores"
KEY = SigningKey.parse(f"atdp_0123456789ab_{SECRET}")
PUBLIC_KEY = "ec24573cdc75541136f9803da5f0e5162899a6f9ff9104084c11dfafefe457f4"
REDELIVERED = (
    "f306016ab95197e7f6ba0ed8dbc7cf528231896b573d0b747cf000266efea9fb"
    "fb2c31be9a070843ad9f24a1bd73d579bda29904b71c3de819ce46f4c6a8530e"
)
RECORD: dict[str, Any] = {"topic": "raw", "record_key": b"acme/t", "value": b"value"}


def test_the_signature_is_known() -> None:
    # Any change here makes every producer's signatures invalid.
    assert KEY.key_id == "0123456789ab"
    assert KEY.public_key.hex() == PUBLIC_KEY
    signature = header(signed_headers(KEY, **RECORD, redelivery=True), SIGNATURE)
    assert signature is not None
    assert signature.hex() == REDELIVERED


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "raw2"},
        {"record_key": b"acme/u"},
        {"value": b"other"},
        # What moves from one part to the next must not leave the same bytes.
        {"topic": "rawa", "record_key": b"cme/t"},
        {"record_key": b"acme/", "value": b"tvalue"},
    ],
)
def test_a_copy_that_means_something_else_is_not_signed(changed: dict[str, Any]) -> None:
    headers = signed_headers(KEY, **RECORD)
    assert verify_record(KEY.public_key, **RECORD, headers=headers)
    assert not verify_record(KEY.public_key, **RECORD | changed, headers=headers)


@pytest.mark.parametrize("redelivery", [True, False])
@pytest.mark.parametrize("mark", [None, b"1", b"0", b"true"])
def test_the_mark_of_a_redelivery_is_signed(redelivery: bool, mark: bytes | None) -> None:
    headers = signed_headers(KEY, **RECORD, redelivery=redelivery)
    assert header(headers, REDELIVERY) == (b"1" if redelivery else None)
    signed = [each for each in headers if each[0] != REDELIVERY]
    marked = signed if mark is None else [*signed, (REDELIVERY, mark)]
    unchanged = mark == (b"1" if redelivery else None)
    assert verify_record(KEY.public_key, **RECORD, headers=marked) is unchanged


def test_another_key_or_another_name_of_the_key_is_refused() -> None:
    headers = signed_headers(KEY, **RECORD)
    other = SigningKey.parse("atdp_0123456789ab_another")
    assert not verify_record(other.public_key, **RECORD, headers=headers)
    renamed = [(KEY_ID, b"ba9876543210"), *headers[1:]]
    assert not verify_record(KEY.public_key, **RECORD, headers=renamed)


def test_what_a_key_store_holds_signs_nothing() -> None:
    copied = SigningKey(key_id=KEY.key_id, seed=KEY.public_key)
    headers = signed_headers(copied, **RECORD)
    assert not verify_record(KEY.public_key, **RECORD, headers=headers)
    # As records were signed when the store held secrets.
    verifier = hashlib.sha256(SECRET.encode()).digest()
    code = hmac.digest(verifier, RECORD["value"], "sha256").hex().encode()
    old = [(KEY_ID, KEY.key_id.encode()), (SIGNATURE, code)]
    assert not verify_record(KEY.public_key, **RECORD, headers=old)


@given(signature=st.binary(max_size=200))
def test_no_other_bytes_are_a_signature(signature: bytes) -> None:
    headers = [(KEY_ID, KEY.key_id.encode()), (SIGNATURE, signature)]
    assert not verify_record(KEY.public_key, **RECORD, headers=headers)


def test_neither_headers_nor_the_text_of_a_key_hold_the_secret() -> None:
    headers = signed_headers(KEY, **RECORD, redelivery=True)
    shown = repr(KEY).encode() + b"".join(value for _, value in headers)
    assert SECRET.encode() not in shown
    assert KEY.seed not in shown
    assert "seed" not in repr(KEY)
    assert header(headers, KEY_ID) == KEY.key_id.encode()


@pytest.mark.parametrize(
    "text", ["", "atdp_", "atdp_id", "atdp_id_", "sk_live_abc", "atdp__secret"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="atdp keys create"):
        SigningKey.parse(text)
