"""A frame comes back as it went in, or not at all."""

import struct
import zlib

from hypothesis import given, strategies as st

from atdp.sdk.record_framing import SpoolRecord, decode_frame, encode_frame

records = st.builds(
    SpoolRecord,
    record_id=st.binary(min_size=16, max_size=16),
    key=st.binary(max_size=60),
    value=st.binary(max_size=300),
    redelivery=st.booleans(),
)


@given(st.lists(records, max_size=5))
def test_frames_written_one_after_the_other_are_read_back_in_order(
    written: list[SpoolRecord],
) -> None:
    buffer = b"".join(encode_frame(record) for record in written)
    at, read = 0, []
    while (decoded := decode_frame(buffer, at)) is not None:
        record, at = decoded
        read.append(record)
    assert read == written
    assert at == len(buffer)


@given(records, st.data())
def test_a_torn_frame_is_not_taken_for_a_record(record: SpoolRecord, data: st.DataObject) -> None:
    frame = encode_frame(record)
    kept = data.draw(st.integers(min_value=0, max_value=len(frame) - 1))
    assert decode_frame(frame[:kept], 0) is None
    assert decode_frame(frame[:kept] + bytes(len(frame) - kept + 50), 0) in (
        None,
        (record, len(frame)),  # the torn-off bytes were zeros, and zeros came back
    )


@given(records, st.data())
def test_a_changed_byte_is_noticed(record: SpoolRecord, data: st.DataObject) -> None:
    frame = bytearray(encode_frame(record))
    at = data.draw(st.integers(min_value=0, max_value=len(frame) - 1))
    frame[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    assert decode_frame(bytes(frame), 0) is None


@given(records, st.binary(max_size=300))
def test_the_headers_of_an_earlier_version_are_skipped(record: SpoolRecord, headers: bytes) -> None:
    body = b"".join(
        (
            struct.pack(
                "<B16sHH", record.redelivery, record.record_id, len(record.key), len(headers)
            ),
            record.key,
            headers,
            record.value,
        )
    )
    frame = struct.pack("<II", len(body), zlib.crc32(body)) + body
    assert decode_frame(frame, 0) == (record, len(frame))
