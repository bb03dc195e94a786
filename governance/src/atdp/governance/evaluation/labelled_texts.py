"""Labelled texts: the files in which people mark the personal values of a text.

The form is that of presidio-research: a JSON list, or JSON Lines, of objects with `full_text` and
`spans`, each span with `entity_type`, `start_position` (inclusive), `end_position` (exclusive) and
`entity_value`. Other fields are ignored. No message quotes a text.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from atdp.governance.entity_names import entity_name
from atdp.governance.errors import UnreadableLabels


@dataclass(frozen=True, slots=True, order=True)
class LabelledSpan:
    """Characters `start` (inclusive) to `end` (exclusive) of a text are `entity`."""

    start: int
    end: int
    entity: str

    @classmethod
    def of(cls, start: int, end: int, entity: str) -> "LabelledSpan":
        """Return a span with the entity's name in the form that scores use."""
        return cls(start, end, entity_name(entity))


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and the spans that people marked in it."""

    text: str
    spans: tuple[LabelledSpan, ...] = ()


class _SpanObject(BaseModel):
    entity_type: Annotated[str, Field(min_length=1)]
    start_position: Annotated[int, Field(ge=0)]
    end_position: int
    entity_value: str | None = None


class _TextObject(BaseModel):
    full_text: str
    spans: list[_SpanObject] | None = None


def read_labelled_texts(path: Path) -> Sequence[LabelledText]:
    """Return the texts of a file.

    Raises:
        UnreadableLabels: the file cannot be read, or an object in it is not of the form. The
            message names the object by its number.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableLabels(f"cannot read {path}: it is not UTF-8 text") from error
    except OSError as error:
        raise UnreadableLabels(f"cannot read {path}: {error.strerror}") from error
    texts = [_labelled_text(item, f"{path}: {place}") for place, item in _objects(content, path)]
    if not texts:
        raise UnreadableLabels(f"{path}: the file holds no text")
    if not any(text.spans for text in texts):
        raise UnreadableLabels(f"{path}: no text has a span, so there is nothing to compare with")
    return texts


def _objects(content: str, path: Path) -> Iterator[tuple[str, Any]]:
    if content.lstrip().startswith("["):
        items = _parsed(content, f"{path} is no JSON list")
        yield from ((f"text {number}", item) for number, item in enumerate(items, 1))
        return
    # Not `splitlines`: texts hold other line ends (U+2028), which JSON does not escape.
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            place = f"line {number}"
            yield place, _parsed(line, f"{path}: {place} is no JSON object")


def _parsed(text: str, problem: str) -> Any:
    """Return a JSON value.

    Raises:
        UnreadableLabels: it is none; the message begins with `problem` and quotes no text.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        reason = f"{error.msg} at {line}column {error.colno}"
        raise UnreadableLabels(
            f"{problem}: {reason}; expected a JSON list of texts, or one text in each line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableLabels(f"{problem}: {type(error).__name__}") from error


def _labelled_text(item: Any, place: str) -> LabelledText:
    try:
        parsed = _TextObject.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        problem = f"{field}: {first['msg']}"
        if first["type"] == "model_type":
            problem = f"{field or 'the text'} is no object; a text has full_text and spans"
        raise UnreadableLabels(f"{place}: {problem}") from error
    spans = []
    for number, span in enumerate(parsed.spans or (), 1):
        start, end = span.start_position, span.end_position
        if not start < end <= len(parsed.full_text):
            raise UnreadableLabels(
                f"{place}: span {number} ends before it begins or after the text; "
                "start_position is inclusive, end_position exclusive, both count characters"
            )
        if span.entity_value is not None and (
            _characters(parsed.full_text[start:end]) != _characters(span.entity_value)
        ):
            raise UnreadableLabels(
                f"{place}: entity_value of span {number} is not what stands at its positions; "
                "they count characters (code points), not bytes"
            )
        spans.append(LabelledSpan.of(start, end, span.entity_type))
    return LabelledText(parsed.full_text, tuple(sorted(spans)))


def _characters(text: str) -> str:
    """Return the letters and digits of a text: some files write a value in one line."""
    return "".join(filter(str.isalnum, text.casefold()))
