"""JSON inside a string: read so that nothing is hidden, and written back in its original style.

`json.loads` keeps only the last of two equal keys, but the first one still stands in the original
text. A text with equal keys therefore counts as changed, so that the text that is written is the
text that was scanned.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from atdp.governance.errors import Refusal

_FIRST: Final = frozenset('{["')
_JSON_LINE = re.compile(
    r"^(?P<before>[ \t]*(?:data:[ \t]*)?)"
    r"(?P<json>\{[^\r\n]*\}|\[[^\r\n]*\])"
    r"(?P<after>[ \t]*\r?\n?)",
    re.MULTILINE,
)
_INDENT = re.compile(r"[\[{]\r?\n( +|\t+)\S")


@dataclass(frozen=True, slots=True)
class ParsedJson:
    """A decoded JSON text. `lossy` is true when it had equal keys and must be written anew."""

    value: Any
    lossy: bool


def parse(text: str) -> ParsedJson | None:
    """Return the JSON object, array or string that `text` holds, or None for any other text.

    Raises:
        Refusal: the JSON is nested deeper than Python can read.
    """
    stripped = text.lstrip(" \t\r\n\ufeff")
    if not stripped or stripped[0] not in _FIRST:
        return None
    lossy = False

    def object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal lossy
        result = dict(items)
        lossy = lossy or len(result) != len(items)
        return result

    try:
        value = json.loads(stripped, object_pairs_hook=object_of)
    except RecursionError as error:
        raise Refusal("json_depth", "JSON inside a string is nested too deeply to read") from error
    except ValueError:
        return None
    return ParsedJson(value, lossy)


def json_lines(text: str) -> Iterator[tuple[str, str, str]] | None:
    """Return the lines of a text that has lines of JSON (NDJSON, server-sent events).

    Each line is (text before the JSON, the JSON or "", the rest); joined, they are the text again.
    Returns None when no line looks like a JSON object or array.
    """
    if _JSON_LINE.search(text) is None:
        return None
    return _split_lines(text)


def _split_lines(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines(keepends=True):
        match = _JSON_LINE.fullmatch(line)
        yield ("", "", line) if match is None else (match["before"], match["json"], match["after"])


def write(value: Any, like: str) -> str:
    """Return the JSON text of `value` with the separators, indentation and escaping of `like`."""
    indent = _INDENT.match(like.lstrip())
    if indent is not None:
        spaces: int | str = "\t" * len(indent[1]) if indent[1][0] == "\t" else len(indent[1])
        return json.dumps(value, ensure_ascii=like.isascii(), indent=spaces)
    wide = '": ' in like or '", "' in like or like.lstrip()[:1] == '"'
    return json.dumps(
        value, ensure_ascii=like.isascii(), separators=(", ", ": ") if wide else (",", ":")
    )
