"""Operators see what spools hold, and get back what damage hid."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from atdp.schemas import new_event_id
from atdp.sdk import (
    MemorySender,
    Recorder,
    SpoolError,
    SpoolSummary,
    inspect_spools,
    recover_spools,
)
from atdp.sdk.file_spool import FileSpool
from atdp.sdk.record_framing import NONCE_BYTES, SpoolRecord
from atdp.sdk.spool_locks import SpoolFolders

from .first_spools import first_frame, first_spool
from .spool_files import SIZE, adopted, crashed, new_spool, record

MakeRecorder = Callable[..., Recorder]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def numbers_of(summary: SpoolSummary) -> tuple[str, str, int, int, int]:
    return (
        summary.tenant,
        summary.use,
        summary.records,
        summary.bytes,
        summary.damaged_bytes,
    )


def test_spools_of_living_and_dead_processes_are_listed_with_what_waits(tmp_path: Path) -> None:
    alive = new_spool(tmp_path / "acme%2Feu", 5, 3 * SIZE)
    alive.acknowledge(2 * SIZE)
    (segment,) = crashed(new_spool(tmp_path / "beta", 4)).path.glob("*.seg")
    flip(segment, SIZE + 20)
    first_spool(tmp_path / "old", [[record(number) for number in range(3)]])
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*.seg"))
    listed = inspect_spools(tmp_path)
    assert [numbers_of(each) for each in listed] == [
        ("acme/eu", "in use", 3, 3 * SIZE, 0),
        ("beta", "left behind", 3, 3 * SIZE, SIZE),
        ("old", "left behind", 3, 150, 0),
    ]
    assert [(each.cursor, each.end) for each in listed] == [
        (2 * SIZE, 5 * SIZE),
        (0, 4 * SIZE),
        (0, 150),
    ]
    assert before == sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*.seg"))
    assert [len(SpoolFolders(tmp_path / name).adopt()) for name in ("acme%2Feu", "beta")] == [0, 1]


def test_what_a_cut_took_is_damage(tmp_path: Path) -> None:
    (segment,) = crashed(new_spool(tmp_path / "acme", 4)).path.glob("*.seg")
    segment.write_bytes(segment.read_bytes()[: 2 * SIZE + 5])
    (summary,) = inspect_spools(tmp_path)
    assert numbers_of(summary) == ("acme", "left behind", 2, 2 * SIZE, 2 * SIZE)


def test_a_folder_without_spools_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match=r"no spool folder .*nowhere.*spool_dir"):
        inspect_spools(tmp_path / "nowhere")


@pytest.fixture
def events(make_recorder: MakeRecorder) -> list[SpoolRecord]:
    """Records of five events of the tenant acme."""
    sender = MemorySender()
    recorder = make_recorder(sender=sender)
    trajectory = recorder.trajectory()
    for number in range(4):
        trajectory.act_message(f"message {number}")
    recorder.close()
    assert len(sender.records) == 5
    return sender.records


def delivered(make_recorder: MakeRecorder, root: Path) -> list[bytes]:
    sender = MemorySender()
    recorder = make_recorder(sender=sender, spool_dir=root)
    assert recorder.flush().recovering_bytes == 0
    assert all(record.redelivery for record in sender.records)
    return [record.record_id for record in sender.records]


def test_records_behind_a_damaged_length_of_the_first_format_are_recovered(
    make_recorder: MakeRecorder, tmp_path: Path, events: list[SpoolRecord]
) -> None:
    root = tmp_path / "old"
    (segment,) = first_spool(root / "acme", [events])
    damaged_at = len(first_frame(events[0]))
    flip(segment, damaged_at + 2)
    lost = len(first_frame(events[1]))
    spool = adopted(SpoolFolders(root / "acme"))
    assert [each.record for each in spool.read(0, 10_000).records] == events[:1]
    spool.acknowledge(spool.read(damaged_at, 10_000).next_position)
    spool.close()
    (aside,) = inspect_spools(root)
    assert numbers_of(aside)[1:3] == ("kept aside", 3)
    assert aside.damaged_bytes == lost
    (recovered,) = recover_spools(root)
    assert (recovered.records, recovered.unreadable_bytes) == (3, lost)
    assert recovered.unreadable is not None
    assert recovered.unreadable.stat().st_size == lost
    assert recovered.unreadable.stat().st_mode & 0o777 == 0o600
    assert [each.use for each in inspect_spools(root)] == ["left behind"]
    assert recover_spools(root) == []
    assert delivered(make_recorder, root) == [each.record_id for each in events[2:]]


@pytest.mark.parametrize(
    "change",
    [
        {"record_id": uuid.UUID(new_event_id()).bytes},
        {"key": b"another"},
        {"value": b"no event"},
    ],
    ids=["another id", "another key", "no event"],
)
def test_what_looks_like_a_frame_of_the_first_format_must_be_an_event_of_the_tenant(
    tmp_path: Path, events: list[SpoolRecord], change: dict[str, bytes]
) -> None:
    fields = {name: getattr(events[0], name) for name in ("record_id", "key", "value")}
    frame = first_frame(SpoolRecord(**(fields | change)))
    for tenant, content in (("acme", frame), ("other", first_frame(events[0]))):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / f"4711-0a1b2c3d-{0:016x}.damaged").write_bytes(content)
    assert [each.records for each in recover_spools(tmp_path)] == [0, 0]


def test_a_record_whose_nonce_alone_is_damaged_is_recovered(
    make_recorder: MakeRecorder, tmp_path: Path, events: list[SpoolRecord]
) -> None:
    root = tmp_path / "spool of the dead"
    folders = SpoolFolders(root / "acme")
    spool = FileSpool(folders.create(), folders)
    ends = [spool.append(each) for each in events]
    (segment,) = crashed(spool).path.glob("*.seg")
    flip(segment, ends[0] + 3)
    flip(segment, ends[2] + NONCE_BYTES + 20)
    again = adopted(folders)
    found, position = [], 0
    while position < again.end:
        batch = again.read(position, 100_000)
        found += [each.record for each in batch.records]
        position = batch.next_position
    assert found == [events[0], events[2], events[4]]
    again.acknowledge(again.end)
    again.close()
    results = recover_spools(root)
    assert [(each.records, each.unreadable_bytes) for each in results] == [
        (1, 0),
        (0, ends[3] - ends[2]),
    ]
    assert [path.suffix for path in (root / "acme").glob("*.*d*e*")] == [".unreadable"]
    assert delivered(make_recorder, root) == [events[1].record_id]
