"""Names that a person may have meant."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` for the known name that is most like `name`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the keys that a part of a document may have; empty for a part without fixed keys."""
    root = model.model_json_schema()
    schema: Mapping[str, Any] = root
    for part in location:
        schema = _child(_resolved(schema, root), part)
    return tuple(_resolved(schema, root).get("properties", ()))


def _child(schema: Mapping[str, Any], part: int | str) -> Mapping[str, Any]:
    if isinstance(part, int):
        items: Mapping[str, Any] = schema.get("items", {})
        return items
    choices = (
        schema.get("properties", {}).get(part),
        schema.get("additionalProperties"),
        # Keys with a form of their own, such as the names of entities.
        *schema.get("patternProperties", {}).values(),
    )
    return next((each for each in choices if isinstance(each, Mapping)), {})


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object or list behind a reference or an optional value."""
    while True:
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if choices:
            schema = choices[0]
        elif "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        else:
            return schema
