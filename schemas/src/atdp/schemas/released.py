"""Every schema version ever released, read from `avro/`."""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, TypeAlias

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

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

_FILE_NAME = re.compile(r"(?P<name>[a-z_]+)\.v(?P<version>\d+)\.avsc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """One released version of a contract.

    `definition` is the JSON of its file, `tree` the same as a typed tree, `parsed` fastavro's form,
    `fingerprint` the 8 bytes of CRC-64-AVRO, little-endian.
    """

    name: SchemaName
    version: int
    definition: Mapping[str, Any]
    tree: AvroRecord
    fingerprint: bytes
    parsed: Any


@functools.cache
def schemas() -> Mapping[bytes, Schema]:
    """Return every released schema by fingerprint (8 bytes, little-endian)."""
    by_fingerprint = {}
    for file in sorted(
        resources.files("atdp.schemas").joinpath("avro").iterdir(), key=lambda entry: entry.name
    ):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None:
            continue
        definition = json.loads(file.read_text(encoding="utf-8"))
        rabin = bytes.fromhex(fingerprint(to_parsing_canonical_form(definition), "CRC-64-AVRO"))
        by_fingerprint[rabin] = Schema(
            name=match["name"],  # type: ignore[arg-type]  # a test compares the names
            version=int(match["version"]),
            definition=definition,
            tree=contract_tree(definition),
            fingerprint=rabin,
            parsed=fastavro.parse_schema(definition, named_schemas={}),
        )
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
