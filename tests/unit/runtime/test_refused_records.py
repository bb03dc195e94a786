"""What readers refused stands in one small file, until a person removes it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from atdp.runtime import (
    Health,
    Home,
    RefusedRecord,
    RefusedRecords,
    SettingsError,
    SignatureProblem,
    refused_records,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def refused(offset: int, reason: SignatureProblem = "unsigned") -> RefusedRecord:
    return RefusedRecord(topic="atdp.audit", partition=0, offset=offset, reason=reason)


def test_a_flood_is_one_entry_and_what_is_read_again_is_not_counted_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    lake = RefusedRecords(home, "lake-writer", now=lambda: NOW)
    lake.add([refused(offset) for offset in range(3, 2_003)])
    size = home.refused_records_file.stat().st_size
    again = RefusedRecords(home, "lake-writer", now=lambda: NOW)
    again.add([refused(offset) for offset in range(1_990, 2_013)])
    again.add([])
    (entry,) = refused_records(home)
    assert (entry.first_offset, entry.last_offset, entry.count) == (3, 2_012, 2_010)
    assert home.refused_records_file.stat().st_size == size
    assert home.refused_records_file.stat().st_mode & 0o077 == 0


def test_each_reader_has_an_alarm_of_its_own_with_place_and_reason(tmp_path: Path) -> None:
    home = Home(tmp_path)
    lake = RefusedRecords(home, "lake-writer", now=lambda: NOW)
    evaluators = RefusedRecords(home, "evaluators", now=lambda: NOW)
    assert lake.alarm() is None
    lake.add([refused(7)])
    lake.add([refused(9, "wrong_signature")])
    evaluators.add([refused(7)])
    alarm = lake.alarm() or ""
    assert "atdp.audit[0] at offset 7" in alarm
    assert "not signed: forged" in alarm
    assert "changed or copied" in alarm
    assert len(refused_records(home)) == 3
    home.refused_records_file.unlink()
    assert (lake.alarm(), evaluators.alarm()) == (None, None)


def test_a_damaged_file_stops_the_reader_and_is_an_alarm(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.refused_records_file.write_text('{"refused": 3}', "utf-8")
    records = RefusedRecords(home, "lake-writer")
    with pytest.raises(SettingsError, match="damaged"):
        records.add([refused(7)])
    health = Health("lake-writer")
    health.add_alarm("refused_records", records.alarm)
    assert "damaged" in str(health.live()[1]["alarms"])


def test_an_alarm_is_shown_and_takes_no_service_out_of_rotation(tmp_path: Path) -> None:
    records = RefusedRecords(Home(tmp_path), "lake-writer")
    health = Health("lake-writer")
    health.add_alarm("refused_records", records.alarm)
    health.ready()
    assert "alarms" not in health.readiness()[1]
    records.add([refused(7)])
    for status, body in (health.live(), health.readiness()):
        assert (status, body["status"]) == (200, "ok")
        assert "offset 7" in str(body["alarms"])
