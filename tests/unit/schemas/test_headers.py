"""A record is tied to a key without the key being on the wire."""

import pytest

from atdp.schemas import (
    KEY_ID,
    REDELIVERY,
    SIGNATURE,
    SchemaError,
    SigningKey,
    header,
    signed_headers,
    verify,
)


def test_the_signature_binds_key_and_value() -> None:
    key = SigningKey.parse("atdp_0123456789ab_secret_with_underscores")
    other = SigningKey.parse("atdp_0123456789ab_another")
    assert key.key_id == "0123456789ab"
    assert verify(key, b"value", key.sign(b"value"))
    assert not verify(key, b"changed", key.sign(b"value"))
    assert not verify(other, b"value", key.sign(b"value"))


def test_only_a_redelivered_record_says_so() -> None:
    key = SigningKey.parse("atdp_id_secret")
    once, again = signed_headers(key, b"v"), signed_headers(key, b"v", redelivery=True)
    assert header(once, REDELIVERY) is None
    assert header(again, REDELIVERY) == b"1"
    assert header(once, KEY_ID) == b"id"
    assert header(once, SIGNATURE) == key.sign(b"v")
    assert b"secret" not in b"".join(value for _, value in again)


@pytest.mark.parametrize(
    "text", ["", "atdp_", "atdp_id", "atdp_id_", "sk_live_abc", "atdp__secret"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="atdp keys create"):
        SigningKey.parse(text)
