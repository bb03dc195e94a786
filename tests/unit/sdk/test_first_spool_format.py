"""Segments of earlier versions are read, never written, and removed when they are delivered."""

import shutil
from pathlib import Path

import pytest

from atdp.sdk.file_spool import FileSpool
from atdp.sdk.spool_locks import SpoolFolders

from .first_spools import FIRST_SIZE, first_spool
from .spool_files import SIZE, adopted, crashed, new_spool, numbers, record

RELEASED = Path(__file__).with_name("first_format")
"""Twelve records that an earlier version wrote; the first three are acknowledged."""


def nine(root: Path) -> list[Path]:
    return first_spool(root, [[record(number) for number in range(9)]])


def test_a_spool_that_an_earlier_version_wrote_is_read_from_its_cursor(tmp_path: Path) -> None:
    folder = tmp_path / "4711-0a1b2c3d"
    shutil.copytree(RELEASED, folder)
    spool = adopted(SpoolFolders(tmp_path))
    stored = [each for at in (spool.cursor, 400) for each in spool.read(at, 4096).records]
    values = [int.from_bytes(each.record.value, "big") for each in stored]
    assert values == list(range(3, 12))
    assert [each.record.redelivery for each in stored] == [n % 5 == 4 for n in values]
    assert all(each.record.record_id == each.record.value[-16:] for each in stored)
    assert (spool.end, spool.skipped_bytes) == (600, 0)
    spool.acknowledge(400)
    assert [path.name for path in folder.glob("*.seg")] == ["0000000000000190.seg"]
    crashed(spool)
    assert numbers(adopted(SpoolFolders(tmp_path))) == [8, 9, 10, 11]


def test_a_spool_of_an_earlier_version_is_removed_when_it_is_delivered(tmp_path: Path) -> None:
    nine(tmp_path)
    spool = adopted(SpoolFolders(tmp_path))
    spool.acknowledge(spool.end)
    spool.close()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_what_is_appended_behind_it_goes_into_a_segment_of_its_own(tmp_path: Path) -> None:
    (segment,) = nine(tmp_path)
    before = segment.read_bytes()
    spool = adopted(SpoolFolders(tmp_path))
    spool.append(record(9))
    assert numbers(spool) == list(range(10))
    crashed(spool)
    again = adopted(SpoolFolders(tmp_path))
    assert (numbers(again), again.end) == (list(range(10)), 9 * FIRST_SIZE + SIZE)
    assert segment.read_bytes() == before


def test_a_torn_last_frame_of_it_is_no_damage(tmp_path: Path) -> None:
    (segment,) = nine(tmp_path)
    segment.write_bytes(segment.read_bytes() + b"torn" * 9)
    spool = adopted(SpoolFolders(tmp_path))
    assert (numbers(spool), spool.skipped_bytes) == (list(range(9)), 0)


@pytest.mark.parametrize("cut", [0, FIRST_SIZE // 2, 4 * FIRST_SIZE, 9 * FIRST_SIZE - 1])
def test_what_a_cut_takes_from_it_is_counted(tmp_path: Path, cut: int) -> None:
    (segment,) = nine(tmp_path)
    segment.write_bytes(segment.read_bytes()[:cut])
    spool = adopted(SpoolFolders(tmp_path))
    left = cut // FIRST_SIZE
    assert numbers(spool) == list(range(left))
    assert spool.skipped_bytes == (9 - left) * FIRST_SIZE
    crashed(spool)
    again = adopted(SpoolFolders(tmp_path))
    assert (numbers(again), again.skipped_bytes) == (list(range(left)), 0)


def damaged(root: Path, at: int) -> FileSpool:
    (segment,) = nine(root)
    content = bytearray(segment.read_bytes())
    content[at] ^= 0xFF
    segment.write_bytes(content)
    return adopted(SpoolFolders(root))


@pytest.mark.parametrize("lost", [0, 3, 8])
def test_a_damaged_value_costs_its_record_and_a_damaged_length_the_rest(
    tmp_path: Path, lost: int
) -> None:
    end = (lost + 1) * FIRST_SIZE
    by_value = damaged(tmp_path / "value", end - 1)
    assert numbers(by_value) == [number for number in range(9) if number != lost]
    assert by_value.skipped_bytes == FIRST_SIZE
    by_length = damaged(tmp_path / "length", lost * FIRST_SIZE + 3)
    assert numbers(by_length) == list(range(lost))
    assert by_length.skipped_bytes == (9 - lost) * FIRST_SIZE
    (aside,) = (tmp_path / "length").glob("*.damaged")
    assert aside.stat().st_size == by_length.skipped_bytes


def test_an_earlier_version_does_not_adopt_a_spool_that_it_cannot_read(tmp_path: Path) -> None:
    """It adopts each folder that holds a file `lock`, and removes it when it sees no record."""
    folder = crashed(new_spool(tmp_path, 1)).path
    assert not (folder / "lock").exists()
