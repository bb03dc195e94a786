"""Headers of batches as a broker answers them, and the login to a broker."""

import gzip
import struct

import pytest
from tests.hostile_batches import batch, compressed, record

from atdp.runtime.batch_headers import BatchHeader, _first_batch
from atdp.runtime.broker_socket import BrokerRefused, ScramLogin

TWO = record(b"a" * 100) + record(b"b" * 100, 1)


def answer(*batches: bytes, error: int = 0, aborted: int = -1) -> bytes:
    """Return the part of an answer to Fetch 4 that is about one partition."""
    records = b"".join(batches)
    head = struct.pack(">ihqqi", 0, error, 9, 9, aborted) + bytes(16 * max(aborted, 0))
    return head + struct.pack(">i", len(records)) + records


def placed(data: bytes, first: int) -> bytes:
    return struct.pack(">q", first) + data[8:]


def test_the_batch_that_holds_an_offset_is_found_behind_those_that_end_before_it() -> None:
    batches = [placed(batch("zstd", compressed("zstd", TWO), 2), first) for first in (4, 6)]
    for aborted in (-1, 0, 3):
        header = _first_batch(answer(*batches, aborted=aborted), 0, 7)
        assert header is not None
        assert (header.first, header.last, header.attributes) == (6, 7, 4)
        assert header.payload == compressed("zstd", TWO)
    assert _first_batch(answer(), 0, 7) is None
    assert _first_batch(answer(error=1), 0, 7) is None
    with pytest.raises(BrokerRefused):
        _first_batch(answer(error=6), 0, 7)


def test_gzip_in_several_streams_is_what_the_client_never_reads() -> None:
    once, twice = gzip.compress(TWO), gzip.compress(TWO[:50]) + gzip.compress(TWO[50:])
    assert not BatchHeader(0, 1, 1, once).is_unreadable
    assert BatchHeader(0, 1, 1, twice).is_unreadable
    assert not BatchHeader(0, 1, 4, twice).is_unreadable


def test_only_batches_outside_of_transactions_must_be_delivered() -> None:
    assert [BatchHeader(0, 0, bits, b"").holds_records for bits in (0, 4, 0x10, 0x30)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_login_is_that_of_the_standard() -> None:
    """The numbers are those of RFC 7677, section 3."""
    login = ScramLogin("user", "pencil", "sha256", nonce="rOprNGfwEbeRWgbNEkqO")
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    challenge = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert login.final(challenge) == f"c=biws,r={nonce},p={proof}".encode()
    login.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(BrokerRefused):
        login.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")
    with pytest.raises(BrokerRefused):
        login.final(challenge.replace(b"rOpr", b"xOpr"))
