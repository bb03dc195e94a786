"""Topic definitions, read from `topics.toml`."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias

from atdp.schemas.released import SchemaName

TopicRole: TypeAlias = Literal[
    "events_raw",
    "events_governed",
    "events_quarantine",
    "quarantine_orders",
    "audit",
    "control",
    "learned_values",
    "register",
    "evaluations",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """One topic as it is to be created."""

    role: TopicRole
    name: str
    owner: str
    doc: str
    schema: SchemaName
    key: str
    partitions: int
    compatibility: str
    config: Mapping[str, str]


@functools.cache
def all_topics() -> Mapping[TopicRole, Topic]:
    """Return all topics by role."""
    text = resources.files("atdp.schemas").joinpath("topics.toml").read_text(encoding="utf-8")
    return {
        role: Topic(role=role, **fields)  # type: ignore[arg-type,misc]
        for role, fields in tomllib.loads(text).items()
    }


def topic(role: TopicRole) -> Topic:
    """Return the topic of the role `role`."""
    return all_topics()[role]
