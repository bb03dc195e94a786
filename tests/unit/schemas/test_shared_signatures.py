"""Records that are sent together share a signature, and each of them is checked alone."""

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, strategies as st

from atdp.schemas import (
    REDELIVERY,
    SIGNATURE,
    SIGNATURE_PATH,
    SigningKey,
    UnsignedRecord,
    header,
    record_signature,
    sign_together,
    signed_headers,
    verify_record,
)

KEY = SigningKey.parse("atdp_0123456789ab_secret")
RECORDS = st.lists(
    st.builds(UnsignedRecord, st.binary(max_size=9), st.binary(max_size=99), st.booleans()),
    max_size=70,
)
Headers = list[tuple[str, bytes]]
SEVEN = [UnsignedRecord(b"acme/t", b"value %d" % number) for number in range(7)]


def verify(record: UnsignedRecord, headers: Headers, topic: str = "raw") -> bool:
    return verify_record(KEY.public_key, topic, record.key, record.value, headers)


def replaced(headers: Headers, name: str, value: bytes) -> Headers:
    return [(each, value if each == name else old) for each, old in headers]


def plain_root(hashes: list[bytes]) -> bytes:
    """Return the root as RFC 9162 defines it, by the largest power of two below the length."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    both = plain_root(hashes[:split]) + plain_root(hashes[split:])
    return hashlib.sha256(b"\1" + both).digest()


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


@given(records=RECORDS)
def test_every_record_is_checked_alone(records: list[UnsignedRecord]) -> None:
    signatures = sign_together(KEY, "raw", records)
    assert all(map(verify, records, signatures))
    assert len({header(headers, SIGNATURE) for headers in signatures}) == bool(records)
    for record, headers in zip(records, signatures, strict=True):
        assert header(headers, REDELIVERY) == (b"1" if record.redelivery else None)


@given(records=RECORDS.filter(lambda records: len(records) > 1))
def test_the_signature_is_that_of_the_tree_of_rfc_9162(records: list[UnsignedRecord]) -> None:
    leaves = []
    for record in records:
        mark = b"1" if record.redelivery else b""
        parts = (b"raw", b"0123456789ab", record.key, mark, record.value)
        message = framed(b"atdp/record/ed25519/1", *parts)
        leaves.append(hashlib.sha256(b"\0" + message).digest())
    signature = header(sign_together(KEY, "raw", records)[0], SIGNATURE)
    assert signature is not None
    Ed25519PublicKey.from_public_bytes(KEY.public_key).verify(
        signature, framed(b"atdp/batch/ed25519/1", plain_root(leaves))
    )


def test_a_single_record_is_signed_as_it_is() -> None:
    (headers,) = sign_together(KEY, "raw", SEVEN[:1])
    assert headers == signed_headers(KEY, "raw", SEVEN[0].key, SEVEN[0].value)
    assert header(headers, SIGNATURE_PATH) is None


@pytest.mark.parametrize(
    "changed",
    [
        UnsignedRecord(b"acme/u", b"value 3"),
        UnsignedRecord(b"acme/t", b"value 4"),
        UnsignedRecord(b"acme/tv", b"alue 3"),
    ],
)
def test_a_changed_record_of_a_batch_is_refused(changed: UnsignedRecord) -> None:
    headers = sign_together(KEY, "raw", SEVEN)[3]
    assert verify(SEVEN[3], headers)
    assert not verify(changed, headers)
    assert not verify(SEVEN[3], headers, "raw2")
    assert not verify(SEVEN[3], [*headers, (REDELIVERY, b"1")])


@given(data=st.data())
def test_another_path_or_signature_is_refused(data: st.DataObject) -> None:
    headers = sign_together(KEY, "raw", SEVEN)[3]
    path = header(headers, SIGNATURE_PATH) or b""
    other: Any = data.draw(
        st.binary(max_size=200)
        | st.integers(0, len(path) - 1).flatmap(
            lambda at: st.integers(1, 255).map(
                lambda bits: path[:at] + bytes([path[at] ^ bits]) + path[at + 1 :]
            )
        )
        | st.integers(0, len(path) - 1).map(lambda end: path[:end])
        | st.just(path + path[:33])
        | st.just(path * 20)
    )
    name = data.draw(st.sampled_from([SIGNATURE, SIGNATURE_PATH]))
    assert not verify(SEVEN[3], replaced(headers, name, other))


def test_the_hash_of_a_node_is_no_record() -> None:
    # A record whose bytes are those of an inner node would be signed without having been sent.
    headers = sign_together(KEY, "raw", SEVEN[:2])[0]
    path = header(headers, SIGNATURE_PATH) or b""
    without_path = [each for each in headers if each[0] != SIGNATURE_PATH]
    assert not verify(SEVEN[0], without_path)
    assert not verify(UnsignedRecord(b"", path[1:]), without_path)


def test_a_valid_batch_says_nothing_about_another_key() -> None:
    headers = sign_together(KEY, "raw", SEVEN)[3]
    other = SigningKey.parse("atdp_0123456789ab_other")
    assert verify(SEVEN[3], headers)
    assert not verify_record(other.public_key, "raw", SEVEN[3].key, SEVEN[3].value, headers)


def test_a_signature_of_another_length_is_refused_without_being_kept() -> None:
    headers = sign_together(KEY, "raw", SEVEN)[0]
    before = record_signature._is_batch_signature.cache_info()
    for signature in (b"", b"x" * 63, b"x" * 1_000_000):
        assert not verify(SEVEN[0], replaced(headers, SIGNATURE, signature))
    assert record_signature._is_batch_signature.cache_info() == before
