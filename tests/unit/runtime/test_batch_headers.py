"""Headers of batches as a broker answers them, and the login to a broker."""

import gzip
import struct
from collections.abc import Sequence

import pytest
from tests.hostile_batches import batch, compressed, record

from atdp.runtime.batch_headers import BatchHeader, BatchHeaders, _batches
from atdp.runtime.broker_socket import BrokerRefused, ScramLogin
from atdp.runtime.checksums import crc32c
from atdp.runtime.kafka_settings import KafkaSettings

TWO = record(b"a" * 100) + record(b"b" * 100, 1)


def answer(
    *batches: bytes, error: int = 0, aborted: Sequence[tuple[int, int]] = (), end: int = 99
) -> bytes:
    """Return the part of an answer to Fetch 4 that is about one partition.

    `aborted` are the producers and the first offsets of aborted transactions.
    """
    records = b"".join(batches)
    head = struct.pack(">ihqqi", 0, error, end, end, len(aborted) or -1)
    head += b"".join(struct.pack(">qq", *each) for each in aborted)
    return head + struct.pack(">i", len(records)) + records


def placed(data: bytes, first: int, producer: int = -1) -> bytes:
    body = data[21:43] + struct.pack(">q", producer) + data[51:]
    return struct.pack(">q", first) + data[8:17] + struct.pack(">I", crc32c(body)) + body


def test_the_batches_from_the_one_that_holds_an_offset_on_are_found() -> None:
    zstd = batch("zstd", compressed("zstd", TWO), 2)
    batches = [placed(zstd, first) for first in (4, 6, 8)]
    for aborted in ([], [(7, 0), (-1, 0)]):
        found = _batches(answer(*batches, aborted=aborted), 0, 7)
        assert [(each.first, each.last, each.attributes) for each in found] == [
            (6, 7, 4),
            (8, 9, 4),
        ]
        assert found[0].stored == batches[1]
    cut_off = answer(*batches, placed(zstd, 10)[:70])
    assert [each.first for each in _batches(cut_off, 0, 4)] == [4, 6, 8]
    assert not _batches(answer(), 0, 7)
    assert not _batches(answer(error=1), 0, 7)
    with pytest.raises(BrokerRefused):
        _batches(answer(error=6), 0, 7)
    with pytest.raises(BrokerRefused):
        _batches(answer(batches[0][:70]), 0, 4)


def test_a_batch_with_a_damaged_last_offset_ends_before_the_next_one_or_at_the_end() -> None:
    two = batch("none", TWO, 2)
    damaged = two[:23] + struct.pack(">i", 5_000) + two[27:]
    found = _batches(answer(placed(damaged, 4), placed(two, 6), end=8), 0, 4)
    assert [(each.first, each.last) for each in found] == [(4, 5), (6, 7)]
    (last,) = _batches(answer(placed(damaged, 4), end=6), 0, 4)
    assert (last.first, last.last) == (4, 5)


def test_a_walk_asks_again_behind_the_last_batch_of_an_answer() -> None:
    one = batch("none", record(b"x"))
    answers = {0: answer(placed(one, 0), placed(one, 3)), 4: answer(placed(one, 5)), 6: answer()}

    class Known(BatchHeaders):
        def _fetch(self, _topic: str, _partition: int, offset: int) -> Sequence[BatchHeader]:
            return _batches(answers[offset], 0, offset)

    headers = Known(KafkaSettings("nowhere"))
    assert [each.first for each in headers.walk("raw", 0, 0)] == [0, 3, 5]
    first = headers.at("raw", 0, 4)
    assert first is not None
    assert first.first == 5
    assert headers.at("raw", 0, 6) is None


def is_unreadable(data: bytes) -> bool:
    (header,) = _batches(answer(data), 0, 0)
    return header.is_unreadable


def test_gzip_in_several_streams_is_what_the_client_never_reads() -> None:
    once, twice = gzip.compress(TWO), gzip.compress(TWO[:50]) + gzip.compress(TWO[50:])
    assert not is_unreadable(batch("gzip", once))
    assert is_unreadable(batch("gzip", twice))
    assert not is_unreadable(batch("zstd", twice))


def test_gzip_that_is_none_is_left_to_the_client_and_a_bomb_hides_no_second_stream() -> None:
    assert not is_unreadable(batch("gzip", b"no gzip"))
    bomb = gzip.compress(bytes(100 << 20), 1)
    assert not is_unreadable(batch("gzip", bomb))
    assert is_unreadable(batch("gzip", bomb + gzip.compress(b"more")))


def test_a_batch_that_the_disk_has_damaged_is_not_waited_for() -> None:
    good = placed(batch("none", TWO, 2), 0)
    assert not is_unreadable(good)
    assert is_unreadable(good[:61] + b"\xff" + good[62:])


def test_the_checksum_is_that_of_the_standard() -> None:
    """The number is that of RFC 3720, appendix B.4, for 32 bytes of zeros, and the usual one."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283


def test_markers_and_aborted_batches_hold_no_records_that_must_be_delivered() -> None:
    def holding(*batches: tuple[int, int], aborted: Sequence[tuple[int, int]]) -> list[bool]:
        """Batches of one record are given by their attributes and their producer."""
        data = [
            placed(batch(bits, record(b"x")), first, producer)
            for first, (bits, producer) in enumerate(batches, 4)
        ]
        found = _batches(answer(*data, aborted=aborted), 0, 4)
        return [each.holds_records for each in found]

    plain, transactional, marker = 0, 0x10, 0x30
    assert holding((plain, 5), (marker, 5), aborted=[(5, 0)]) == [True, False]
    assert holding((transactional, 5), aborted=[(6, 4), (5, 5)]) == [True]
    assert holding((transactional, 5), aborted=[(6, 4), (5, 2)]) == [False]
    two_transactions = [(transactional, 5), (marker, 5)] * 2
    others = [(transactional, 6), (marker, 6)]
    assert holding(*two_transactions, aborted=[(5, 4)]) == [False, False, True, False]
    assert holding(*two_transactions, aborted=[(5, 6)]) == [True, False, False, False]
    assert holding((transactional, 5), *others, (transactional, 5), aborted=[(5, 4)]) == [
        False,
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
