"""The outbox of a home: records of evaluations that Kafka has not acknowledged yet, one per file.

A record is on the disk before anything is sent, and its file is removed after the acknowledgement.
A publisher that is killed in between sends the same record again, under the same id; the lake has
one row for each id. Several processes may publish from one outbox: a file that another one has sent
and removed is passed over. A record that may be sent only after its gate is recorded is held until
then, in a folder of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from atdp.runtime import Home, write_durably
from atdp.schemas import SchemaError, decode_record, encode_record

if TYPE_CHECKING:
    from atdp.control import DecisionTopic

_HELD: Final = ".held"


@dataclass(frozen=True, slots=True)
class EvaluationOutbox:
    """The records in one folder, each in a file named by its event id."""

    folder: Path

    @classmethod
    def of(cls, home: Home) -> "EvaluationOutbox":
        """Return the outbox of a home."""
        return cls(home.evaluations / "outbox")

    def add(self, record: Mapping[str, Any]) -> None:
        """Put a record in, and end its being held; it is on the disk when this returns."""
        write_durably(self.folder / record["event_id"], encode_record("evaluation", record))
        self.drop(record)

    def hold(self, record: Mapping[str, Any]) -> None:
        """Hold a record that may not be sent yet; it is on the disk when this returns."""
        file = self.folder / _HELD / record["event_id"]
        write_durably(file, encode_record("evaluation", record))

    def drop(self, record: Mapping[str, Any]) -> None:
        """Remove a record that is held; without effect where it is not."""
        (self.folder / _HELD / record["event_id"]).unlink(missing_ok=True)

    def held(self) -> list[Mapping[str, Any]]:
        """Return the records that are held, ordered by event id."""
        records: list[Mapping[str, Any]] = []
        for file in sorted((self.folder / _HELD).glob("[!.]*")):
            try:
                records.append(decode_record(file.read_bytes())[1])
            except (FileNotFoundError, SchemaError):
                continue  # another process has dealt with it, or it is damaged
        return records

    def is_empty(self) -> bool:
        """Return True when nothing waits and nothing is held."""
        return not self.waiting() and not any((self.folder / _HELD).glob("[!.]*"))

    def waiting(self) -> list[Path]:
        """Return the files of the records that wait, ordered by event id."""
        return sorted(self.folder.glob("[!.]*"))

    def publish_to(self, topic: "DecisionTopic") -> int:
        """Send every record that waits; returns how many were sent.

        A file that is damaged stays, and the others are sent.

        Raises:
            PublishFailed: a record was not acknowledged, and it and the later ones stay; or files
                are damaged.
        """
        from atdp.control import OutboxMessage, PublishFailed

        sent, damaged = 0, []
        for file in self.waiting():
            try:
                value = file.read_bytes()
                _, record = decode_record(value)
            except FileNotFoundError:  # another publisher has sent and removed it
                continue
            except SchemaError:
                damaged.append(file.name)
                continue
            topic.publish([OutboxMessage(key=record["model"].encode(), value=value)])
            file.unlink(missing_ok=True)
            sent += 1
        if damaged:
            raise PublishFailed(
                f"{len(damaged)} files of {self.folder} are damaged and cannot be sent "
                f"(the first is {damaged[0]}); restore them from a backup, or remove them"
            )
        return sent
