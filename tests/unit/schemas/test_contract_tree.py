"""The typed tree holds the contract's types, with every name resolved."""

from typing import Any

import pytest

from atdp.schemas import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    SchemaError,
    newest,
    records_of,
)
from atdp.schemas.contract_tree import contract_tree

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["red", "unknown"], "default": "unknown"}


def record(*types: Any) -> dict[str, Any]:
    """A record definition whose fields `f0`, `f1`, … have `types`."""
    fields = [{"name": f"f{index}", "type": type_} for index, type_ in enumerate(types)]
    return {"type": "record", "name": "Outer", "namespace": "atdp", "fields": fields}


def test_every_form_of_type_has_its_node() -> None:
    time = {"type": "long", "logicalType": "timestamp-micros"}
    tree = contract_tree(
        record("string", time, ["null", "double"], {"type": "array", "items": "int"}, COLOUR)
    )
    assert [field.type for field in tree.fields] == [
        AvroPrimitive("string"),
        AvroPrimitive("long", "timestamp-micros"),
        AvroNullable(AvroPrimitive("double")),
        AvroArray(AvroPrimitive("int")),
        AvroEnum("Colour", ("red", "unknown"), default="unknown"),
    ]


def test_docs_and_defaults_are_kept_and_a_default_of_null_is_a_default() -> None:
    definition = record("string")
    definition["doc"] = "The record."
    definition["fields"].append(
        {"name": "g", "type": ["null", "int"], "default": None, "doc": "The field."}
    )
    tree = contract_tree(definition)
    assert tree.doc == "The record."
    assert tree.fields[0] == AvroField("f0", AvroPrimitive("string"))
    assert tree.fields[1] == AvroField(
        "g", AvroNullable(AvroPrimitive("int")), doc="The field.", has_default=True
    )


@pytest.mark.parametrize("reference", ["Inner", "atdp.Inner"])
def test_a_name_leads_to_the_type_at_its_definition(reference: str) -> None:
    tree = contract_tree(record(INNER, ["null", reference]))
    first, second = (field.type for field in tree.fields)
    assert isinstance(second, AvroNullable)
    assert second.item is first
    assert [each.name for each in records_of(tree)] == ["Outer", "Inner"]


@pytest.mark.parametrize(
    "odd", [["string", "null"], ["null", "int", "long"], {"type": "map", "values": "int"}, "Outer"]
)
def test_types_that_the_contracts_do_not_use_are_refused(odd: Any) -> None:
    with pytest.raises(SchemaError):
        contract_tree(record(odd))


def test_a_contract_is_a_record() -> None:
    with pytest.raises(SchemaError, match="must be a record"):
        contract_tree(COLOUR)


def test_the_trees_of_the_released_contracts_name_their_fields_in_wire_order() -> None:
    for name in ("event", "audit", "quarantine", "control_event"):
        schema = newest(name)
        assert isinstance(schema.tree, AvroRecord)
        names = [field["name"] for field in schema.definition["fields"]]
        assert [field.name for field in schema.tree.fields] == names
