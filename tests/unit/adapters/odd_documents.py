"""Documents that differ from a good one in one place."""

import json
from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", 0, -1, 1.5, True, 1 << 40, [], {}, [1], {"a": 1}, [{}], "absent!", "unknown!"]
)
"""Values to put into a place; the last two remove it, or add a key that no schema has."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        place
        for key, item in entries
        for place in (
            [(*path, key), *places(item, (*path, key))]
            if isinstance(item, dict | list)
            else [(*path, key)]
        )
    ]


def with_odd_value(document: Any, place: tuple[Any, ...], odd: Any) -> Any:
    """Return a copy of the document with another value at a place."""
    changed = json.loads(json.dumps(document))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if odd == "absent!":
        del holder[place[-1]]
    elif odd == "unknown!" and isinstance(holder, dict):
        holder["unknown key"] = {"$value": 1}
    else:
        holder[place[-1]] = odd
    return changed
