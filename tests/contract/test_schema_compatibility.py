"""Released schemas never change, and readers and writers of all versions stay compatible."""

import copy
import itertools
import json
import tomllib
from importlib import resources
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from fastavro.schema import fingerprint, to_parsing_canonical_form

from atdp.schemas import TopicRole, all_topics, schemas


def compatible(reader: Any, writer: Any) -> bool:
    result = ReaderWriterCompatibilityChecker().get_compatibility(
        avro.schema.parse(json.dumps(reader)), avro.schema.parse(json.dumps(writer))
    )
    return bool(result.compatibility is SchemaCompatibilityType.compatible)


def every_pair() -> list[Any]:
    return [
        pytest.param(reader, writer, id=f"{reader.name}: v{reader.version} reads v{writer.version}")
        for reader, writer in itertools.product(schemas().values(), repeat=2)
        if reader.name == writer.name
    ]


@pytest.mark.parametrize(("reader", "writer"), every_pair())
def test_every_version_reads_every_other(reader: Any, writer: Any) -> None:
    assert compatible(reader.definition, writer.definition)


def test_released_files_keep_their_form() -> None:
    folder = resources.files("atdp.schemas").joinpath("avro")
    files = {
        entry.name.removesuffix(".avsc"): json.loads(entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".avsc")
    }
    computed = {
        name: fingerprint(to_parsing_canonical_form(definition), "CRC-64-AVRO")
        for name, definition in files.items()
    }
    assert tomllib.loads(folder.joinpath("released.toml").read_text("utf-8")) == computed
    for schema in schemas().values():
        assert schema.definition == files[f"{schema.name}.v{schema.version}"]


def test_every_topic_has_a_schema_and_topics_by_raw_partition_share_their_partition_count() -> None:
    names = {schema.name for schema in schemas().values()}
    assert {topic.schema for topic in all_topics().values()} <= names
    assert set(all_topics()) == {
        "events_raw",
        "events_governed",
        "events_quarantine",
        "quarantine_orders",
        "audit",
        "control",
        "learned_values",
        "register",
        "evaluations",
    }
    by_raw_partition: tuple[TopicRole, ...] = (
        "events_raw",
        "events_governed",
        "learned_values",
        "quarantine_orders",
    )
    assert len({all_topics()[role].partitions for role in by_raw_partition}) == 1


def event_v1() -> dict[str, Any]:
    (schema,) = [s for s in schemas().values() if s.name == "event" and s.version == 1]
    return copy.deepcopy(dict(schema.definition))


def required_field_added(definition: dict[str, Any]) -> None:
    definition["fields"].append({"name": "novelty", "type": "string"})


def type_changed(definition: dict[str, Any]) -> None:
    next(field for field in definition["fields"] if field["name"] == "seq")["type"] = "string"


def enum_symbol_removed(definition: dict[str, Any]) -> None:
    kind = next(field for field in definition["fields"] if field["name"] == "kind")["type"]
    kind["symbols"].remove("reward")
    del kind["default"]


@pytest.mark.parametrize("breaking", [required_field_added, type_changed, enum_symbol_removed])
def test_a_breaking_change_is_noticed(breaking: Any) -> None:
    changed = event_v1()
    breaking(changed)
    assert not compatible(changed, event_v1())


def test_an_optional_field_is_no_breaking_change() -> None:
    changed = event_v1()
    changed["fields"].append({"name": "novelty", "type": ["null", "string"], "default": None})
    assert compatible(changed, event_v1())
    assert compatible(event_v1(), changed)


def every_field(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        own = node.get("fields", [])
        return [*own, *itertools.chain.from_iterable(every_field(item) for item in node.values())]
    if isinstance(node, list):
        return list(itertools.chain.from_iterable(every_field(item) for item in node))
    return []


@pytest.mark.parametrize(
    "schema", schemas().values(), ids=lambda schema: f"{schema.name}.v{schema.version}"
)
def test_every_field_is_documented(schema: Any) -> None:
    fields = every_field(schema.definition)
    assert fields
    assert [field["name"] for field in fields if not field.get("doc", "").strip()] == []
