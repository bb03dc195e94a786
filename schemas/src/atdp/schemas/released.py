"""Every schema version ever released, as `avro/released.toml` lists them.

The files in `avro/` are read when they are needed. The list holds the fingerprints, which a test
compares with those that fastavro computes from the files. A program that only writes events reads
one file, and does not import fastavro.
"""

import functools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from atdp.schemas.contract_tree import AvroRecord, contract_tree
from atdp.schemas.errors import UnknownSchema

SchemaName: TypeAlias = Literal[
    "event",
    "audit",
    "quarantine",
    "quarantine_order",
    "control_event",
    "learned_values",
    "register_entry",
    "evaluation",
]

MARKER = b"\xc3\x01"
HEADER_BYTES = 10
"""Length of the single-object header: marker and fingerprint."""

_FOLDER = Path(__file__).with_name("avro")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """One released version of a contract.

    `fingerprint` is the 8 bytes of CRC-64-AVRO of its canonical form, little-endian.
    """

    name: SchemaName
    version: int
    fingerprint: bytes

    @property
    def definition(self) -> Mapping[str, Any]:
        """The JSON of its file."""
        return _definition(self)

    @property
    def tree(self) -> AvroRecord:
        """The definition as a typed tree."""
        return _tree(self)

    @property
    def parsed(self) -> Any:
        """The definition in fastavro's form."""
        return _parsed(self)


@functools.cache
def _definition(schema: Schema) -> Mapping[str, Any]:
    text = (_FOLDER / f"{schema.name}.v{schema.version}.avsc").read_text("utf-8")
    definition: Mapping[str, Any] = json.loads(text)
    return definition


@functools.cache
def _tree(schema: Schema) -> AvroRecord:
    return contract_tree(_definition(schema))


@functools.cache
def _parsed(schema: Schema) -> Any:
    import fastavro

    return fastavro.parse_schema(_definition(schema), named_schemas={})


@functools.cache
def schemas() -> Mapping[bytes, Schema]:
    """Return every released schema by fingerprint (8 bytes, little-endian)."""
    by_fingerprint = {}
    listed = tomllib.loads((_FOLDER / "released.toml").read_text("utf-8"))
    for key, fingerprint in listed.items():
        name, _, version = key.rpartition(".v")
        schema = Schema(
            name=name,  # type: ignore[arg-type]  # a test compares the names
            version=int(version),
            fingerprint=bytes.fromhex(fingerprint),
        )
        by_fingerprint[schema.fingerprint] = schema
    return by_fingerprint


@functools.cache
def newest(name: SchemaName) -> Schema:
    """Return the newest released version of a contract."""
    return max(
        (schema for schema in schemas().values() if schema.name == name),
        key=lambda schema: schema.version,
    )


def schema_of(data: bytes) -> Schema:
    """Return the schema that single-object bytes were written with.

    Raises:
        UnknownSchema: the marker is missing, or the fingerprint was never released.
    """
    if len(data) < HEADER_BYTES or data[:2] != MARKER:
        raise UnknownSchema("not Avro single-object bytes: the C3 01 marker is missing")
    schema = schemas().get(bytes(data[2:HEADER_BYTES]))
    if schema is None:
        raise UnknownSchema(
            f"unknown schema fingerprint {data[2:HEADER_BYTES].hex()}; "
            "upgrade atdp-schemas to read it"
        )
    return schema
