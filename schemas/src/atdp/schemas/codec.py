"""The wire form: Avro single-object encoding, with every released schema version at hand.

A record is `C3 01`, the 8-byte CRC-64-AVRO fingerprint of its writer's schema (little-endian), and
the Avro body (Avro 1.12, "Single-object encoding"). No registry is needed: all versions ever
released ship in `avro/` and are resolved to the newest one while reading. Bytes that carry an
unknown fingerprint raise `UnknownSchema`; the gate quarantines them.

fastavro does the Avro work. `encode`/`decode` go between `Event` and bytes,
`encode_record`/`decode_record` between plain mappings and bytes: that is what governance walks,
since it must visit fields that a value class may not know yet.
"""

import functools
import io
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import fastavro

from atdp.schemas import _compiled, _mapping, _numbers
from atdp.schemas._misfit import misfit
from atdp.schemas.errors import InvalidRecord
from atdp.schemas.released import (
    HEADER_BYTES,
    MARKER,
    Schema,
    SchemaName,
    newest,
    schema_of,
    schemas,
)
from atdp.schemas.values import KIND_OF_BODY, Event, Kind

__all__ = [
    "HEADER_BYTES", "Schema", "SchemaName", "decode", "decode_record", "encode", "encode_plainly", "encode_record", "event_from_json",
    "event_to_json", "event_to_record", "newest", "record_to_event", "schema_of", "schemas",
]  # fmt: skip


def encode_record(name: SchemaName, record: Mapping[str, Any]) -> bytes:
    """Single-object bytes of a mapping, in the newest schema version.

    Raises:
        InvalidRecord: the mapping does not fit the schema; the message says where, and quotes no
            value.
    """
    schema = newest(name)
    _ranges(schema.fingerprint)(record, "$")
    buffer = io.BytesIO()
    buffer.write(MARKER + schema.fingerprint)
    try:
        fastavro.schemaless_writer(buffer, schema.parsed, record)
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        AttributeError,
        IndexError,
        UnicodeError,
    ) as error:
        # Without its cause: fastavro's message, and so a traceback, would quote the record.
        why = misfit(schema.definition, record) or f"$: does not fit ({type(error).__name__})"
        raise InvalidRecord(f"{name}: {why}") from None
    return buffer.getvalue()


@functools.cache
def _ranges(rabin: bytes) -> _numbers.Check:
    return _numbers.compile_ranges(schemas()[rabin].definition)


def decode_record(data: bytes) -> tuple[SchemaName, dict[str, Any]]:
    """Name and mapping of single-object bytes, resolved to the newest schema version; times are aware datetimes.

    Raises:
        UnknownSchema: see `schema_of`.
        InvalidRecord: the body is damaged, truncated or followed by other bytes, or holds a number
            that its type cannot.
    """
    writer = schema_of(data)
    buffer = io.BytesIO(data)
    buffer.seek(HEADER_BYTES)
    reader = newest(writer.name)
    try:
        record = fastavro.schemaless_reader(
            buffer, writer.parsed, None if reader is writer else reader.parsed
        )
    except (
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        OverflowError,
        IndexError,
        StopIteration,
        MemoryError,
    ) as error:
        raise InvalidRecord(
            f"{writer.name} v{writer.version}: damaged record: {type(error).__name__}"
        ) from None
    if buffer.read(1):
        raise InvalidRecord(f"{writer.name} v{writer.version}: bytes left over after the record")
    _numbers.refuse_overlong(data, HEADER_BYTES, writer.definition, record)
    _ranges(reader.fingerprint)(record, "$")
    return writer.name, record


_BODY_OF_KIND: dict[Kind, type[Any]] = {kind: body for body, kind in KIND_OF_BODY.items()}


def encode(event: Event) -> bytes:
    """Single-object bytes of an event.

    By the compiled schema, which is several times as fast; what that does not expect goes to
    `encode_plainly`, which encodes it or says what is wrong.

    Raises:
        InvalidRecord: a value does not fit the schema (an int beyond 32 bits, a lone surrogate).
    """
    prefix, write = _event_writer()
    parts = [prefix]
    try:
        write(event, parts)
    except Exception:  # noqa: BLE001 - whatever it was, the plain encoder takes the event or says why not
        return encode_plainly(event)
    return b"".join(parts)


def encode_plainly(event: Event) -> bytes:
    """What `encode` gives, through a mapping and fastavro: the reference that tests hold it to.

    Raises:
        InvalidRecord: see `encode`.
    """
    return encode_record("event", event_to_record(event))


@functools.cache
def _event_writer() -> tuple[bytes, _compiled.Writer]:
    schema = newest("event")
    return MARKER + schema.fingerprint, _compiled.compile_event(schema.definition)


def decode(data: bytes) -> Event:
    """The event that `data` holds; `decode(encode(event)) == event` but for log-probabilities, which are 32-bit floats.

    Raises:
        UnknownSchema, InvalidRecord: see `decode_record`.
    """
    name, record = decode_record(data)
    if name != "event":
        raise InvalidRecord(f"expected an event, got a record of {name!r}")
    return record_to_event(record)


def event_to_record(event: Event) -> dict[str, Any]:
    """The Avro mapping of an event: envelope, `kind`, and the one body field that the kind names."""
    record = _mapping.to_mapping(event)
    record["kind"] = event.kind
    record[event.kind] = record.pop("body")
    return record


def record_to_event(record: Mapping[str, Any]) -> Event:
    """The event of an Avro mapping, or of its JSON form (times as RFC 3339 text, absent fields left out).

    Raises:
        InvalidRecord: unknown kind, a body other than the one the kind names, or a field that does
            not fit.
    """
    envelope = dict(record)
    kind = envelope.pop("kind", None)
    if not isinstance(kind, str) or kind not in _BODY_OF_KIND:
        raise InvalidRecord(
            f"$.kind: expected one of {', '.join(_BODY_OF_KIND)}, got {_mapping.kind_of(kind)}"
        )
    bodies = {name: envelope.pop(name, None) for name in _BODY_OF_KIND}
    present = [name for name, body in bodies.items() if body is not None]
    if present != [kind]:
        raise InvalidRecord(
            f"$: kind {kind!r} needs exactly the field {kind!r}, found {present or 'none'}"
        )
    envelope["body"] = _mapping.from_mapping(_BODY_OF_KIND[kind], bodies[kind], f"$.{kind}")
    event: Event = _mapping.from_mapping(Event, envelope)
    return event


def event_to_json(event: Event) -> dict[str, Any]:
    """JSON form of an event for HTTP: like the Avro mapping, times as RFC 3339 text, nulls left out."""
    record = _mapping.to_mapping(event, omit_none=True)
    record["kind"] = event.kind
    record[event.kind] = record.pop("body")
    return _times_as_text(record)  # type: ignore[no-any-return]


def event_from_json(document: Mapping[str, Any]) -> Event:
    """The event of its JSON form.

    Raises:
        InvalidRecord: see `record_to_event`.
    """
    return record_to_event(document)


def _times_as_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _times_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_times_as_text(item) for item in value]
    return value
