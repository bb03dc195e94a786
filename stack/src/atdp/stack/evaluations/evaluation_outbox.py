"""The outbox of a home: records of evaluations that Kafka has not acknowledged yet, one per file.

A record is on the disk before anything is sent, and its file is removed after the acknowledgement.
A publisher that is killed in between sends the same record again, under the same id; the lake has
one row for each id. Several processes may publish from one outbox: a file that another one has sent
and removed is passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atdp.control import DecisionTopic, OutboxMessage
from atdp.runtime import write_durably
from atdp.schemas import decode_record, encode_record


@dataclass(frozen=True, slots=True)
class EvaluationOutbox:
    """The records in one folder, each in a file named by its event id."""

    folder: Path

    def add(self, record: Mapping[str, Any]) -> None:
        """Put a record in; it is on the disk when this returns."""
        write_durably(self.folder / record["event_id"], encode_record("evaluation", record))

    def waiting(self) -> list[Path]:
        """Return the files of the records that wait, ordered by event id."""
        return sorted(self.folder.glob("[!.]*"))

    def publish_to(self, topic: DecisionTopic) -> int:
        """Send every record that waits; returns how many were sent.

        Raises:
            PublishFailed: a record was not acknowledged; it and the later ones stay.
        """
        return sum(self._publish(file, topic) for file in self.waiting())

    def _publish(self, file: Path, topic: DecisionTopic) -> bool:
        try:
            value = file.read_bytes()
        except FileNotFoundError:  # another publisher has sent and removed it
            return False
        _, record = decode_record(value)
        topic.publish([OutboxMessage(key=record["model"].encode(), value=value)])
        file.unlink(missing_ok=True)
        return True
