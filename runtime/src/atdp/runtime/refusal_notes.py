"""Records of the platform's topics that a reader has refused, since their signature is not valid.

Only the owner of a topic may write to it, so a reader that refuses a record puts no copy of it
anywhere: the record stays in its topic, and this file of the home says where. It has one entry for
each reader, partition and reason, so that a flood of forged records does not fill the disk. An
entry is on the disk before the reader goes past the record, and a record that is read again after a
crash is not counted twice. The entries are an alarm until a person removes the file.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from atdp.runtime.clock import utc_now
from atdp.runtime.durable_files import write_durably
from atdp.runtime.errors import SettingsError
from atdp.runtime.file_locks import locked
from atdp.runtime.home import Home
from atdp.runtime.signed_output import RefusedRecord, SignatureProblem

_log = logging.getLogger("atdp.runtime")

_TEXT: Final[Mapping[SignatureProblem, str]] = {
    "unsigned": "not signed: forged, or written by an atdp that did not sign",
    "wrong_signature": "not signed for this place by this home: forged, changed or copied",
}


OnRefused: TypeAlias = Callable[[Sequence[RefusedRecord]], None]
"""Is told of refused records before their reader goes past them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalEntry:
    """The records of one partition that one reader has refused for one reason."""

    reader: str
    topic: str
    partition: int
    reason: SignatureProblem
    first_offset: int
    last_offset: int
    count: int
    first_at: str
    """UTC, ISO 8601."""
    last_at: str

    @classmethod
    def of_record(cls, record: RefusedRecord, reader: str, at: str) -> Self:
        """Return the entry of a first record."""
        return cls(
            reader=reader,
            topic=record.topic,
            partition=record.partition,
            reason=record.reason,
            first_offset=record.offset,
            last_offset=record.offset,
            count=1,
            first_at=at,
            last_at=at,
        )

    @property
    def text(self) -> str:
        """One sentence for people."""
        records, places = "1 record", f"offset {self.last_offset}"
        if self.count > 1:
            records = f"{self.count} records"
            places = f"offsets {self.first_offset} to {self.last_offset}"
        return (
            f"{self.reader} refused {records} of {self.topic}[{self.partition}] at "
            f"{places}, the last at {self.last_at}: {_TEXT.get(self.reason, self.reason)}"
        )


class RefusedRecords:
    """The refused records of one reader in the file of its home."""

    def __init__(self, home: Home, reader: str, *, now: Callable[[], datetime] = utc_now) -> None:
        self._file = home.refused_records_file
        self._reader = reader
        self._now = now

    def add(self, records: Sequence[RefusedRecord]) -> None:
        """Add records, in the order of each partition; they are on the disk when this returns.

        Raises:
            OSError, SettingsError: the file cannot be written or read. The reader must stop.
        """
        if not records:
            return
        self._log(records)
        at = self._now().isoformat(timespec="seconds")
        with locked(self._file.with_name(f".{self._file.name}.lock")):
            entries = {_place(entry): entry for entry in _read(self._file)}
            for record in records:
                place = (self._reader, record.topic, record.partition, record.reason)
                entries[place] = _with(entries.get(place), record, self._reader, at)
            content = {"refused": [asdict(entry) for entry in entries.values()]}
            write_durably(self._file, json.dumps(content, indent=1) + "\n", mode=0o600)

    def _log(self, records: Sequence[RefusedRecord]) -> None:
        """Write one line for each partition and reason."""
        places = Counter((each.topic, each.partition, each.reason) for each in records)
        for (name, partition, reason), count in places.items():
            place = {"topic": name, "partition": partition, "reason": reason, "records": count}
            _log.error("records are refused, since their signature is not valid", extra=place)

    def alarm(self) -> str | None:
        """Return what this reader has refused; None: nothing."""
        own = [entry.text for entry in _read(self._file) if entry.reader == self._reader]
        return "; ".join(own) or None


def refused_records(home: Home) -> list[RefusalEntry]:
    """Return what the readers of a home have refused.

    Raises:
        SettingsError: the file is damaged.
    """
    return _read(home.refused_records_file)


def _with(entry: RefusalEntry | None, record: RefusedRecord, reader: str, at: str) -> RefusalEntry:
    if entry is None:
        return RefusalEntry.of_record(record, reader, at)
    if record.offset <= entry.last_offset:
        return entry
    return replace(entry, last_offset=record.offset, count=entry.count + 1, last_at=at)


def _place(entry: RefusalEntry) -> tuple[str, str, int, str]:
    return (entry.reader, entry.topic, entry.partition, entry.reason)


def _read(file: Path) -> list[RefusalEntry]:
    try:
        content: Mapping[str, Iterable[Mapping[str, Any]]] = json.loads(file.read_text("utf-8"))
        return [RefusalEntry(**each) for each in content["refused"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{file} is damaged; move it away, and look for refused records in the logs"
        ) from error
