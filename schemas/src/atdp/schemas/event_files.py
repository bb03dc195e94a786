"""Files of events as producers write them: JSON Lines, or an Avro object container file.

In JSON Lines, each line is one event in its JSON form (UTF-8); empty lines are left out. An object
container file (Avro 1.12, "Object container files") holds the schema of its writer, which is
resolved to the newest released one. The first bytes tell the two apart. Files are read as a stream,
one event at a time.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from atdp.schemas.codec import event_from_json, record_to_event
from atdp.schemas.errors import InvalidRecord, SchemaError
from atdp.schemas.event import Event
from atdp.schemas.released import newest

_CONTAINER_MAGIC = b"Obj\x01"


class UnreadableEvents(SchemaError):
    """A file is not one of events; the message names the place and quotes no value."""


@dataclass(frozen=True, slots=True)
class EventEntry:
    """One entry of a file; `place` is the file with the line, or with the event's number from 1.

    `event` is None where the entry does not fit the schema; `reason` then says why.
    """

    place: str
    event: Event | None
    reason: str = ""


def read_events(path: Path) -> Iterator[EventEntry]:
    """Yield the entries of a file of events in order.

    Raises:
        UnreadableEvents: the file cannot be read, or an entry is neither JSON nor Avro.
    """
    try:
        with path.open("rb") as file:
            if file.peek(len(_CONTAINER_MAGIC)).startswith(_CONTAINER_MAGIC):
                yield from _container_entries(file, path)
            else:
                yield from _line_entries(file, path)
    except OSError as error:
        raise UnreadableEvents(f"{path}: {error.strerror or type(error).__name__}") from error


def _line_entries(file: BinaryIO, path: Path) -> Iterator[EventEntry]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        place = f"{path.name} line {number}"
        try:
            document = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise _not_json(place, f"column {error.colno}") from None
        except (ValueError, RecursionError) as error:
            raise _not_json(place, type(error).__name__) from None
        yield _entry(place, event_from_json, document)


def _container_entries(file: BinaryIO, path: Path) -> Iterator[EventEntry]:
    import fastavro

    number = 0
    try:
        for record in fastavro.reader(file, newest("event").parsed):
            number += 1
            yield _entry(f"{path.name} event {number}", record_to_event, record)
    except Exception as error:  # noqa: BLE001 - damaged bytes may fail in any way
        raise UnreadableEvents(
            f"{path}: the Avro container file is damaged or holds no events of this contract, "
            f"after event {number} ({type(error).__name__})"
        ) from None


def _entry(place: str, read: Any, document: object) -> EventEntry:
    if not isinstance(document, dict):
        return EventEntry(place, None, "an event is a JSON object")
    try:
        return EventEntry(place, read(document))
    except InvalidRecord as error:
        return EventEntry(place, None, str(error))


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("JSON has no NaN and no infinities")


def _not_json(place: str, detail: str) -> UnreadableEvents:
    return UnreadableEvents(
        f"{place}: not JSON ({detail}); each line holds one event in its JSON form"
    )
