"""YAML documents that people write, validated by a pydantic model, with errors that name the place.

Every problem is reported with line and column. A key that occurs twice is refused: plain YAML
loaders keep the last of two equal keys and drop the first without an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from atdp.runtime.errors import DocumentError

M = TypeVar("M", bound=BaseModel)

_SHOWN_PROBLEMS = 8
_MOST_CHARACTERS = 4_000_000
_MOST_BYTES = 4 * _MOST_CHARACTERS
"""Of a file that is read; a character has at most 4 bytes in UTF-8."""
_MOST_WRITTEN_OUT = 2 * _MOST_CHARACTERS
"""Characters of a document whose aliases are written out. A few lines of aliases of aliases stand
for more than any machine holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentProblem:
    """A wrong part of a document.

    `line` and `column` count from 1. `location` holds the keys and indexes that lead to the part,
    `path` the same as text. `kind` is pydantic's name of the error, such as `extra_forbidden`.
    """

    line: int
    column: int
    location: tuple[int | str, ...]
    path: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed text: its plain value, and its nodes for the places of problems."""

    value: Any
    where: str
    _node: yaml.Node | None
    _has_text: bool = True

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the document of a YAML file.

        Raises:
            DocumentError: the file cannot be read, is not UTF-8, or see `parse`.
        """
        try:
            with file.open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
            text = data.decode()
        except OSError as error:
            raise DocumentError(f"cannot read {file}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise DocumentError(f"cannot read {file}: it is not UTF-8 text") from error
        return cls.parse(text, where=str(file))

    @classmethod
    def of_value(cls, value: object, *, where: str) -> Self:
        """Return the document of a value that was not read from text; its problems have no line."""
        return cls(value, where, None, _has_text=False)

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Return the document of a YAML text; messages name it `where`.

        Raises:
            DocumentError: the text is not YAML, too long, has a key twice, or has aliases that
                contain themselves or stand for too much.
        """
        if len(text) > _MOST_CHARACTERS:
            raise DocumentError(f"{where}: longer than {_MOST_CHARACTERS} characters")
        try:
            loader = _UniqueKeyLoader(text)
            node = loader.get_single_node()
            _check_aliases(node)
            value = None if node is None else loader.construct_document(node)
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", None) or getattr(error, "reason", str(error))
            place = _error_place(error, text)
            at = "" if place is None else f":{place[0]}:{place[1]}"
            raise DocumentError(f"{where}{at}: not valid YAML: {problem}", place) from error
        except RecursionError as error:
            raise DocumentError(f"{where}: not valid YAML: it is nested too deeply") from error
        return cls(value, where, node)

    def as_model(self, model: type[M]) -> M:
        """Return the document as a value of `model`.

        Raises:
            DocumentError: it is not one; the message names line and column of each problem.
        """
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            problems = self._problems(error)
            shown = [
                f"{self.where_is(each.location)}: {each.path or 'the document'}: {each.message}"
                for each in problems[:_SHOWN_PROBLEMS]
            ]
            if len(problems) > _SHOWN_PROBLEMS:
                shown.append(f"and {len(problems) - _SHOWN_PROBLEMS} further problems")
            raise DocumentError("; ".join(shown)) from error

    def problems(self, model: type[BaseModel]) -> Sequence[DocumentProblem]:
        """Return everything that makes the document no value of `model`."""
        try:
            model.model_validate(self.value)
        except ValidationError as error:
            return self._problems(error)
        return ()

    def place_of(self, location: tuple[int | str, ...]) -> tuple[int, int]:
        """Return line and column, from 1, at which the deepest existing part of a location is."""
        mark, _ = self._place(location)
        return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)

    def where_is(self, location: tuple[int | str, ...]) -> str:
        """Return name, line and column of a location; the name alone if there was no text."""
        if not self._has_text:
            return self.where
        line, column = self.place_of(location)
        return f"{self.where}:{line}:{column}"

    def _problems(self, error: ValidationError) -> Sequence[DocumentProblem]:
        """Return the problems of a failed validation.

        A list of which every item is wrong has a problem of its own, that it has too few items; it
        is left out.
        """
        problems = error.errors(include_url=False)
        inner = {
            problem["loc"][:length] for problem in problems for length in range(len(problem["loc"]))
        }
        return [
            self._problem(each["loc"], each["type"], each["msg"])
            for each in problems
            if each["type"] != "too_short" or each["loc"] not in inner
        ]

    def _problem(self, location: tuple[int | str, ...], kind: str, message: str) -> DocumentProblem:
        line, column = self.place_of(location)
        return DocumentProblem(
            line=line,
            column=column,
            location=location,
            path=self._place(location)[1],
            kind=kind,
            message=message.removeprefix("Value error, "),
        )

    def _place(self, location: tuple[int | str, ...]) -> tuple[yaml.Mark | None, str]:
        """Return where the deepest node on a location begins, and its path.

        Names that pydantic adds, such as the tag of a union, are no part of the document. A missing
        key is the last part of its location.
        """
        node, mark, path = self._node, None, []
        mark = None if node is None else node.start_mark
        for part in location:
            child, child_mark = _child(node, part)
            if child_mark is not None:
                node, mark = child, child_mark
                path.append(str(part))
            elif part == location[-1]:
                path.append(str(part))
        return mark, ".".join(path)


def _check_aliases(node: yaml.Node | None) -> None:
    """Check that a document with its aliases written out is finite and not too large.

    Raises:
        yaml.MarkedYAMLError: it is not.
    """
    counts: dict[int, int] = {}  # size of each node; 0 while it is counted

    def count(node: yaml.Node) -> int:
        known = counts.get(id(node))
        if known == 0:
            raise yaml.MarkedYAMLError(
                problem="an alias stands inside of what it stands for", problem_mark=node.start_mark
            )
        if known is not None:
            return known
        counts[id(node)] = 0
        total = 1
        if isinstance(node, yaml.ScalarNode):
            total += len(node.value)
        elif isinstance(node, yaml.MappingNode):
            total += sum(count(key) + count(value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            total += sum(count(item) for item in node.value)
        if total > _MOST_WRITTEN_OUT:
            raise yaml.MarkedYAMLError(
                problem=f"its aliases stand for more than {_MOST_WRITTEN_OUT} characters",
                problem_mark=node.start_mark,
            )
        counts[id(node)] = total
        return total

    if node is not None:
        count(node)


def _child(node: yaml.Node | None, part: int | str) -> tuple[yaml.Node | None, yaml.Mark | None]:
    """Return the node that `part` of a location names, and where it begins; None: there is none."""
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child, child.start_mark
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark
    return None, None


def _error_place(error: yaml.YAMLError, text: str) -> tuple[int, int] | None:
    """Return line and column of an error; None where it names no place."""
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.position, int):
        before = text[: error.position].split("\n")
        return len(before), len(before[-1]) + 1
    mark = getattr(error, "problem_mark", None)
    return None if mark is None else (mark.line + 1, mark.column + 1)


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping with the same key twice; each problem names its place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct the value of a node as the base class does."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # a date or a number of the right form that does not exist
            raise yaml.constructor.ConstructorError(
                None, None, str(error), node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct the mapping as the base class does, after a check for repeated keys."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, "merge keys (<<) are not taken; write the keys", key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be one plain value", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
