"""The vectors of the conformance suite, read from `conformance/`.

A vector is one event, or the events of some trajectories in the order of the log, with the verdict
of one rule. docs/reference/conformance.md describes the files for programs in other languages.
"""

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from atdp.schemas.codec import decode, event_from_json
from atdp.schemas.event import Event

VectorVerdict: TypeAlias = Literal["accept", "reject"]

VECTOR_FILES = ("events.jsonl", "sequences.jsonl")
"""The files of vectors: of single events, and of sequences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformanceVector:
    """One vector; a vector to reject breaks the rule `rule`, one to accept keeps every rule."""

    id: str
    rule: str
    verdict: VectorVerdict
    sentence: str
    events: tuple[Mapping[str, Any], ...] = ()
    """The events in their JSON form; empty where JSON has no form for a number."""
    avro: tuple[bytes, ...] = ()
    """The events as single-object bytes, where the vector has this form."""

    def read(self) -> tuple[Event, ...]:
        """Return the events as values.

        Raises:
            InvalidRecord: an event does not fit the schema.
        """
        if self.events:
            return tuple(event_from_json(document) for document in self.events)
        return tuple(decode(data) for data in self.avro)


def vector_text(name: str) -> str:
    """Return the text of one of `VECTOR_FILES`."""
    folder = Path(__file__).with_name("conformance")
    return folder.joinpath(name).read_text(encoding="utf-8")


@functools.cache
def event_vectors() -> tuple[ConformanceVector, ...]:
    """Return the vectors of single events."""
    return _read(vector_text("events.jsonl"))


@functools.cache
def sequence_vectors() -> tuple[ConformanceVector, ...]:
    """Return the vectors of sequences."""
    return _read(vector_text("sequences.jsonl"))


def _read(text: str) -> tuple[ConformanceVector, ...]:
    vectors = []
    for line in text.splitlines():
        fields = json.loads(line)
        avro = tuple(base64.b64decode(data) for data in fields.pop("avro", ()))
        vectors.append(
            ConformanceVector(**{**fields, "events": tuple(fields.get("events", ())), "avro": avro})
        )
    return tuple(vectors)
