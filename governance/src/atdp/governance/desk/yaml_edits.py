"""Values of a YAML text replaced in place, so that comments and layout stay."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import yaml

KeyPath: TypeAlias = tuple[str, ...]


def replace_values(text: str, values: Mapping[KeyPath, str]) -> str:
    """Return the text with new YAML for the values of these keys; keys that it lacks are left out.

    `text` is known to be YAML with a mapping at its top.
    """
    edits = []
    depth = max(len(path) for path in values)
    for path, node in _values(yaml.compose(text, Loader=yaml.SafeLoader), (), depth):
        if (new := values.get(path)) is not None:
            start, end = node.start_mark.index, node.end_mark.index
            old = text[start:end]
            ending = old[len(old.rstrip()) :]  # a block of lines ends where the next key begins
            edits.append((start, end, new + ending))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _values(
    node: yaml.Node | None, path: KeyPath, depth: int
) -> Iterator[tuple[KeyPath, yaml.Node]]:
    """Yield the values of the keys down to a depth, each with the keys that lead to it."""
    if isinstance(node, yaml.MappingNode) and depth > 0:
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, value
            yield from _values(value, inner, depth - 1)
