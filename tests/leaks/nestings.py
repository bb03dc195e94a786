"""The documents in which a sentence with a value stands inside one string field."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenValue:
    """A value in its coding: `sentence` names its type, `value` does not, `key` is a key for it."""

    sentence: str
    value: str
    key: str


Nesting: TypeAlias = Callable[[WrittenValue, random.Random], str]


def dumped(document: Any, chance: random.Random) -> str:
    """Return the JSON text of a document in one of the usual styles."""
    return json.dumps(
        document,
        ensure_ascii=chance.random() < 0.5,
        indent=chance.choice((None, None, None, 2)),
    )


def _plain(written: WrittenValue, chance: random.Random) -> str:
    return written.sentence


def _json(written: WrittenValue, chance: random.Random) -> str:
    return dumped({"status": "ok", "note": written.sentence, "count": 2}, chance)


def _json_in_json(written: WrittenValue, chance: random.Random) -> str:
    text = dumped({"note": written.sentence}, chance)
    for _ in range(chance.randrange(1, 3)):
        text = dumped({"inner": [text]}, chance)
    return text


def _lines(written: WrittenValue, chance: random.Random) -> str:
    rows = [json.dumps({"step": "a"}), json.dumps({"note": written.sentence}), '{"step": "b"}']
    if chance.random() < 0.5:
        return "\n".join(rows) + "\n"
    return "".join(f"event: item\ndata: {row}\n\n" for row in rows)


def _list(written: WrittenValue, chance: random.Random) -> str:
    return dumped(["first", written.sentence, {"x": ["last"]}], chance)


def _key(written: WrittenValue, chance: random.Random) -> str:
    return dumped({"result": {written.sentence: True, "other": False}}, chance)


def _under_a_key(written: WrittenValue, chance: random.Random) -> str:
    if chance.random() < 0.25:
        return dumped({"settings": [{"name": written.key, "value": written.value}]}, chance)
    return dumped({"data": {written.key: written.value, "ok": True}}, chance)


def _markdown(written: WrittenValue, chance: random.Random) -> str:
    form = chance.choice(
        (
            "# Notes\n\n- first\n- **Contact:** {}\n",
            "| what | text |\n| --- | --- |\n| note | {} |\n",
            "> {}\n\nSee [the page](https://docs.zed.io/help).",
            "```\n{}\n```\nThat was all.",
        )
    )
    return form.format(written.sentence)


def _url(written: WrittenValue, chance: random.Random) -> str:
    form = chance.choice(
        ("https://shop.zed.io/find?page=2&{}={}&sort=up", "GET /find?{}={} HTTP/1.1")
    )
    return form.format(written.key, quote(written.value, safe="@:,"))


def _code(written: WrittenValue, chance: random.Random) -> str:
    text = json.dumps(written.sentence, ensure_ascii=False)
    form = chance.choice(
        (
            "def main() -> None:\n    note = {}\n    print(note)\n",
            "const note = {}; // shown once\n",
            "echo {} >> notes.txt && cat notes.txt",
            "INSERT INTO notes (body) VALUES ({});",
            "log.info({})",
        )
    )
    return form.format(text)


NESTINGS: Mapping[str, Nesting] = {
    "plain": _plain,
    "json": _json,
    "json in json": _json_in_json,
    "lines": _lines,
    "list": _list,
    "key": _key,
    "under a key": _under_a_key,
    "markdown": _markdown,
    "url": _url,
    "code": _code,
}


def _number(written: WrittenValue, chance: random.Random) -> str:
    number: float = int(written.value)
    if chance.random() < 0.25:
        number = float(number)
    return dumped({"rows": [{"n": number}], "ok": True}, chance)


def _number_in_list(written: WrittenValue, chance: random.Random) -> str:
    return dumped({"ids": [1, int(written.value), 2]}, chance)


def _number_under_a_key(written: WrittenValue, chance: random.Random) -> str:
    return dumped({written.key: int(written.value)}, chance)


def _number_in_lines(written: WrittenValue, chance: random.Random) -> str:
    return f'{{"a": 1}}\n{{"n": {written.value}}}\n'


NUMBER_NESTINGS: Mapping[str, Nesting] = {
    "json": _number,
    "list": _number_in_list,
    "under a key": _number_under_a_key,
    "lines": _number_in_lines,
}
"""Documents that hold the digits of a value as a JSON number."""


def _items(pieces: list[str], chance: random.Random) -> str:
    return dumped({"lines": pieces}, chance)


def _deltas(pieces: list[str], chance: random.Random) -> str:
    rows = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        for piece in pieces
    ]
    return "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"


def _chunks(pieces: list[str], chance: random.Random) -> str:
    return dumped([{"type": "text_delta", "text": piece} for piece in pieces], chance)


def _argument_deltas(pieces: list[str], chance: random.Random) -> str:
    # The text of a JSON document arrives in pieces, each of them escaped once more.
    whole = ['{"note": "', *(json.dumps(piece)[1:-1] for piece in pieces), '"}']
    rows = [{"type": "input_json_delta", "partial_json": piece} for piece in whole]
    return "".join(json.dumps({"delta": row}) + "\n" for row in rows)


SPLITS: Mapping[str, Callable[[list[str], random.Random], str]] = {
    "items": _items,
    "deltas": _deltas,
    "chunks": _chunks,
    "argument deltas": _argument_deltas,
}
"""Documents that hold a sentence in pieces."""
