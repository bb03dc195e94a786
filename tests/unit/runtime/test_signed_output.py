"""Only what the owner of a topic signed for that topic is its record."""

import hmac
import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from atdp.runtime import (
    OUTPUT_POSITION,
    OUTPUT_SIGNATURE,
    Home,
    SecretKeyError,
    SignedTopic,
    load_secret_key,
)
from atdp.schemas import REDELIVERY, REGOVERNED

SECRET = b"s" * 32
GOVERNED = SignedTopic(SECRET, "events_governed")
KEY, VALUE = b"acme/t-1", b"a governed event"
POSITION = (OUTPUT_POSITION, b"atdp.events.raw/0/7")
HEADERS = GOVERNED.signed(KEY, VALUE, [POSITION, (REDELIVERY, b"1")])


def test_a_record_as_it_was_signed_may_be_used() -> None:
    assert GOVERNED.problem(KEY, VALUE, HEADERS) is None
    assert GOVERNED.problem(KEY, VALUE, [("traceparent", b"00-1"), *HEADERS]) is None


def framed(*parts: bytes) -> bytes:
    """Return pairs of parts, each pair behind its two lengths."""
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return b"".join(struct.pack(">II", len(a), len(b)) + a + b for a, b in pairs)


@given(key=st.none() | st.binary(), value=st.none() | st.binary(max_size=300), mark=st.binary())
def test_the_signature_is_the_plain_hmac(
    key: bytes | None, value: bytes | None, mark: bytes
) -> None:
    secret = hmac.digest(SECRET, b"atdp output key v1|governance", "sha256")
    text = framed(b"atdp output v1|", GOVERNED.name.encode(), key or b"", value or b"")
    text += framed(REDELIVERY.encode(), mark)
    *_, (name, signature) = GOVERNED.signed(key, value, [("other", b"1"), (REDELIVERY, mark)])
    assert (name, signature) == (OUTPUT_SIGNATURE, hmac.digest(secret, text, "sha256"))


@pytest.mark.parametrize(
    ("topic", "key", "value", "headers"),
    [
        (GOVERNED, KEY, VALUE + b"!", HEADERS),
        (GOVERNED, b"globex/t-1", VALUE, HEADERS),
        (GOVERNED, None, VALUE, HEADERS),
        (GOVERNED, KEY, VALUE, [*HEADERS, (REGOVERNED, b"9")]),
        (GOVERNED, KEY, VALUE, [each for each in HEADERS if each[0] != REDELIVERY]),
        (GOVERNED, KEY, VALUE, [(OUTPUT_POSITION, b"atdp.events.raw/0/8"), *HEADERS[1:]]),
        (GOVERNED, KEY, VALUE, [*HEADERS, (OUTPUT_SIGNATURE, b"x" * 32)]),
        (GOVERNED, KEY, VALUE, [*HEADERS, (OUTPUT_SIGNATURE, b"")]),
        (SignedTopic(SECRET, "events_governed", "other.events.governed"), KEY, VALUE, HEADERS),
        (SignedTopic(SECRET, "audit"), KEY, VALUE, HEADERS),
        (SignedTopic(SECRET, "control", GOVERNED.name), KEY, VALUE, HEADERS),
        (SignedTopic(b"t" * 32, "events_governed"), KEY, VALUE, HEADERS),
    ],
    ids=[
        "value",
        "key",
        "no key",
        "regoverned",
        "redelivery",
        "position",
        "second signature",
        "empty signature",
        "topic",
        "role",
        "owner",
        "secret",
    ],
)
def test_a_genuine_signature_of_something_else_is_wrong(
    topic: SignedTopic, key: bytes, value: bytes, headers: list[tuple[str, bytes]]
) -> None:
    assert topic.problem(key, value, headers) == "wrong_signature"


@pytest.mark.parametrize("headers", [None, [], [POSITION], [("atdp-signature", b"x")]])
def test_a_record_without_a_signature_is_unsigned(headers: list[tuple[str, bytes]] | None) -> None:
    assert GOVERNED.problem(KEY, VALUE, headers) == "unsigned"


@given(st.binary(max_size=20), st.binary(max_size=20), st.integers(1, 20))
def test_bytes_that_move_from_the_key_to_the_value_change_the_signature(
    key: bytes, value: bytes, moved: int
) -> None:
    whole = key + value
    place = (len(key) + moved) % (len(whole) + 1)
    if place == len(key):
        return
    headers = GOVERNED.signed(key, value)
    assert GOVERNED.problem(whole[:place], whole[place:], headers) == "wrong_signature"


def test_without_a_secret_nothing_is_signed_or_checked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(SecretKeyError, match="is missing"):
        SignedTopic.of_home(home, "audit")
    assert not home.register_secret_file.exists()
    secret = load_secret_key(home.register_secret_file, if_lost="the test fails")
    headers = SignedTopic(secret, "audit").signed(KEY, VALUE)
    assert SignedTopic.of_home(home, "audit").problem(KEY, VALUE, headers) is None
    home.register_secret_file.chmod(0o640)
    with pytest.raises(SecretKeyError, match="other users"):
        SignedTopic.of_home(home, "audit")
    home.register_secret_file.chmod(0o600)
    home.register_secret_file.write_text("", "utf-8")
    with pytest.raises(SecretKeyError, match="damaged"):
        SignedTopic.of_home(home, "audit")
