"""A reader that decodes everything it can, to see which values can still be read in an output.

It shares no code with the detectors. A text is read as it stands and in every decoded form, one
within another: JSON and its lines, backslash escapes, percent-encoding, HTML entities, base64 and
hex. Texts at equal places of lists and lines are also read joined, so that a value in pieces is
seen. Of every form only letters and digits are compared, without width, case and accents.
"""

import base64
import binascii
import functools
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from .personal_values import PersonalValue, compact

_DEPTH = 7
_SHARE_LEFT = 0.7
"""A value is left when a piece of this share of its core can be read..."""
_SHARE_OF_DATE = 0.85
"""...of a date more: the same month in another year is another date..."""
_PIECE_CHARS = 7
"""...and has at least this many characters, or is the whole core."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\s[A-Za-z0-9+/_-]{2,})*={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){6,}")
_UNICODE_ESCAPE = re.compile(r"\\+u\{?([0-9a-fA-F]{4})\}?|\\+x([0-9a-fA-F]{2})")
_BREAK_ESCAPE = re.compile(r"\\+[nrt]")
_BREAK = "\x00"
"""Stands between texts that are not joined."""


def is_left(value: PersonalValue, readings: str) -> bool:
    """Return True when the value can be read in what `readings` returned."""
    core = value.core
    share = _SHARE_OF_DATE if value.kind == "birth date" else _SHARE_LEFT
    length = min(len(core), max(_PIECE_CHARS, round(len(core) * share)))
    if len(core) <= _PIECE_CHARS and core.isdecimal():
        # Five digits stand by chance within longer numbers.
        return re.search(rf"(?<![0-9]){core}(?![0-9])", readings) is not None
    return any(core[start : start + length] in readings for start in range(len(core) - length + 1))


def readings(documents: Iterable[Any]) -> str:
    """Return all forms of all texts and numbers of some documents."""
    return _BREAK.join(_forms(text) for document in documents for text in _texts(document))


@functools.lru_cache(maxsize=50_000)
def _forms(text: str) -> str:
    """Return all forms of one text. Most texts of an event repeat, such as names of fields."""
    texts: set[str] = set()
    _read(text, texts, 0)
    return _BREAK.join(sorted({_comparable(each) for each in texts}))


def _read(text: str, texts: set[str], depth: int) -> None:
    """Add a text, and everything that is encoded in it.

    Texts of one form may differ in what is encoded in them: `&#95;` is a code, `& #95;` is none.
    """
    if text in texts:
        return
    texts.add(text)
    if depth < _DEPTH:
        for decoded in _decodings(text):
            _read(decoded, texts, depth + 1)


def _decodings(text: str) -> Iterator[str]:
    yield unquote(text)
    yield html.unescape(text)
    yield _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    yield _BREAK_ESCAPE.sub(" ", text)
    yield unicodedata.normalize("NFKC", text)
    for document in _json_documents(text):
        yield from _texts(document)
    yield from _blobs(text)


def _json_documents(text: str) -> Iterator[Any]:
    """Yield the whole text as JSON, else its lines together, else JSON anywhere within it."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _json_within(text)
    else:
        yield whole


def _json_within(text: str) -> Iterator[Any]:
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line.strip().removeprefix("data:")))
        except (ValueError, RecursionError):
            continue
    if rows:
        yield rows
    decoder = json.JSONDecoder()
    for match in re.finditer(r'[{\["]', text):
        try:
            document, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if document:
            yield document


def _blobs(text: str) -> Iterator[str]:
    for match in _HEX.finditer(text):
        yield from _as_text(bytes.fromhex(match[0]))
    for match in _BASE64.finditer(text):
        for piece in {match[0], *match[0].split()}:
            plain = "".join(piece.split()).rstrip("=").replace("-", "+").replace("_", "/")
            try:
                data = base64.b64decode(plain + "=" * (-len(plain) % 4))
            except binascii.Error:
                continue
            yield from _as_text(data)


def _as_text(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if text.isprintable() or "\n" in text:
        yield text


def _texts(document: Any) -> Iterator[str]:
    """Yield every text of a document, and the texts at equal places joined."""
    joined: dict[str, list[str]] = {}
    for place, text in _leaves(document, ""):
        yield text
        joined.setdefault(place, []).append(text)
    for texts in joined.values():
        if len(texts) > 1:
            yield "".join(texts)
            yield " ".join(texts)


def _leaves(document: Any, place: str) -> Iterator[tuple[str, str]]:
    match document:
        case str():
            yield place, document
        case bool() | None:
            return
        case int() | float():
            yield place + "#", _spelled(document)
        case Mapping():
            for key, item in document.items():
                yield place + "{key}", str(key)
                yield from _leaves(item, f"{place}.{key}")
        case list() | tuple():
            for item in document:
                yield from _leaves(item, place + "[]")
        case bytes():
            yield from ((place, text) for text in _as_text(document))


def _spelled(number: float) -> str:
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e40
    return str(int(number)) if whole else repr(number)


def _comparable(text: str) -> str:
    """Return letters and digits alone, without width, accents and case."""
    return compact(unicodedata.normalize("NFKD", text))
