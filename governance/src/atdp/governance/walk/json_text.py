"""JSON inside a string: read so that nothing hides, written back in the style it came in.

A plain `json.loads` keeps the last of two equal keys and forgets the first, which would still stand
in the original text: such a text counts as changed, so that what is written is what was scanned.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from atdp.governance.errors import Refusal

_FIRST = frozenset('{["')
_ROW = re.compile(
    r"^(?P<before>[ \t]*(?:data:[ \t]*)?)(?P<json>\{[^\r\n]*\}|\[[^\r\n]*\])(?P<after>[ \t]*\r?\n?)",
    re.MULTILINE,
)
_INDENT = re.compile(r"[\[{]\r?\n( +|\t+)\S")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A decoded JSON text. `lossy`: it held equal keys, so it must be written anew."""

    value: Any
    lossy: bool


def parse(text: str) -> Parsed | None:
    """The JSON document that `text` is: an object, an array or a string; `None` for anything else.

    Raises:
        Refusal: nested deeper than Python can follow.
    """
    stripped = text.lstrip(" \t\r\n\ufeff")
    if not stripped or stripped[0] not in _FIRST:
        return None
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(items)
        repeated = repeated or len(found) != len(items)
        return found

    try:
        value = json.loads(stripped, object_pairs_hook=pairs)
    except RecursionError as error:
        raise Refusal("json_depth", "JSON inside a string is nested too deeply to read") from error
    except ValueError:
        return None
    return Parsed(value, repeated)


def lines(text: str) -> Iterator[tuple[str, str, str]] | None:
    """The lines of a text of which some look like JSON each (NDJSON, server-sent events): what stands before, the JSON or "", the rest.

    Joined, the pieces are the text. `None` when no line looks like an object or an array.
    """
    if _ROW.search(text) is None:
        return None
    return _rows(text)


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines(keepends=True):
        match = _ROW.fullmatch(line)
        yield ("", "", line) if match is None else (match["before"], match["json"], match["after"])


def write(value: Any, like: str) -> str:
    """JSON text of `value` with the separators, indentation and escaping of `like`."""
    indent = _INDENT.match(like.lstrip())
    if indent is not None:
        spaces: int | str = "\t" * len(indent[1]) if indent[1][0] == "\t" else len(indent[1])
        return json.dumps(value, ensure_ascii=like.isascii(), indent=spaces)
    wide = '": ' in like or '", "' in like or like.lstrip()[:1] == '"'
    return json.dumps(
        value, ensure_ascii=like.isascii(), separators=(", ", ": ") if wide else (",", ":")
    )
