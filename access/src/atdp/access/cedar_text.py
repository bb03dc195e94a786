"""Cedar text: its check against the schema, and the lines of its rules.

The engine names rules `policy0`, `policy1`, … in the order of the text, and its errors of syntax
name no line. So the text is split into its rules here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import cedarpy

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n\r]*|;|\s+')
"""Texts that hide a semicolon, and the semicolon that ends a rule."""
_NESTING: Final = re.compile(r"[(\[{]|[)\]}]|&&|\|\||[-+*.!]|\b(?:if|has|like|in|is)\b|[=<>]+")
"""Brackets and operators: what can make an expression deep."""
_MOST_DEPTH: Final = 50
_MOST_OPERATORS: Final = 500
"""Limits of one rule. The engine parses by recursion: beyond a few thousand, the process dies."""
_INCOMPLETE: Final = "unexpected end of input"
"""The engine's message on a text that goes on."""
_TOO_DEEP: Final = (
    f"the rule has more than {_MOST_DEPTH} brackets within each other, or more than "
    f"{_MOST_OPERATORS} operators; split it into several rules, or use a set and `in`"
)
_NUMBER: Final = re.compile(r"\bpolicy(\d+)\b")


@dataclass(frozen=True, slots=True)
class CedarProblem:
    """A problem of a text, and the line of it (from 1)."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class _Rule:
    line: int
    text: str


@cache
def cedar_schema() -> cedarpy.Schema:
    """Return the schema of all rules."""
    return cedarpy.Schema.from_str(_shipped("schema.cedarschema"))


@cache
def default_rules() -> str:
    """Return the rules of every home."""
    return _shipped("default.cedar")


def rule_names(text: str) -> Sequence[str]:
    """Return the names of the rules of a valid text in its order: their `@id`, else `rule<n>`."""
    rules = cedarpy.policies_to_pst(text).static_policies
    return [
        rules[f"policy{index}"].annotations.get("id") or f"rule{index + 1}"
        for index in range(len(rules))
    ]


@dataclass(frozen=True, slots=True)
class CedarRule:
    """A rule of a valid text."""

    name: str
    effect: str
    """`permit` or `forbid`."""
    text: str


def described_rules(text: str) -> Sequence[CedarRule]:
    """Return the rules of a valid text, in its order."""
    parsed = cedarpy.policies_to_pst(text).static_policies
    return [
        CedarRule(name, parsed[f"policy{index}"].effect, rule.text)
        for index, (name, rule) in enumerate(zip(rule_names(text), _rules(text), strict=True))
    ]


def cedar_problems(text: str) -> Sequence[CedarProblem]:
    """Return what is wrong with a text: syntax, names that the schema lacks, types; empty: nothing.

    A rule that names attributes is checked by the schema, so that no rule can fail in use for the
    lack of one.
    """
    rules = list(_rules(text))
    # Before the engine sees any of them.
    if too_deep := [CedarProblem(rule.line, _TOO_DEEP) for rule in rules if _is_too_deep(rule)]:
        return too_deep
    broken = [problem for rule in rules if (problem := _syntax_problem(rule)) is not None]
    if broken:
        return broken
    try:
        parsed = cedarpy.policies_to_pst(text)
        checked = cedarpy.validate_policies(text, cedar_schema())
    except ValueError as error:
        return [CedarProblem(1, str(error))]
    if parsed.templates:
        return [CedarProblem(1, "templates (`?principal`, `?resource`) have no effect here")]
    if not rules:
        return [CedarProblem(1, "the text has no rule")]
    problems = [CedarProblem(*_located(rules, error.error)) for error in checked.errors]
    if not checked.validation_passed and not problems:
        problems = [CedarProblem(1, "the rules do not fit the schema")]
    names = rule_names(text)
    repeated = {name for name in names if names.count(name) > 1}
    problems += [
        CedarProblem(rule.line, f"the name {name!r} is used by several rules; give each its own")
        for rule, name in zip(rules, names, strict=True)
        if name in repeated
    ]
    return problems


def _rules(text: str) -> Iterator[_Rule]:
    """Yield the rules with the line where each begins."""
    start: int | None = None
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        hidden = token is not None and (token[0].isspace() or token[0].startswith("//"))
        if start is None and not hidden:
            start = place
        place = token.end() if token is not None else place + 1
        if start is not None and token is not None and token[0] == ";":
            yield _Rule(text.count("\n", 0, start) + 1, text[start:place])
            start = None
    if start is not None:
        yield _Rule(text.count("\n", 0, start) + 1, text[start:])


def _is_too_deep(rule: _Rule) -> bool:
    depth = deepest = operators = 0
    code = _TOKEN.sub(lambda token: " " if token[0] != ";" else ";", rule.text)
    for part in _NESTING.findall(code):
        if part in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif part in ")]}":
            depth -= 1
        else:
            operators += 1
    return deepest > _MOST_DEPTH or operators > _MOST_OPERATORS


def _syntax_problem(rule: _Rule) -> CedarProblem | None:
    """Return the first error of syntax, at the line up to which the text can still be completed."""
    message = _syntax_error(rule.text)
    if message is None:
        return None
    lines = rule.text.splitlines(keepends=True)
    for count in range(1, len(lines)):
        error = _syntax_error("".join(lines[:count]))
        if error is not None and error != _INCOMPLETE:
            return CedarProblem(rule.line + count - 1, message)
    return CedarProblem(rule.line + len(lines) - 1, message)


def _syntax_error(text: str) -> str | None:
    try:
        cedarpy.policies_to_pst(text)
    except ValueError as error:
        return str(error)
    return None


def _located(rules: Sequence[_Rule], message: str) -> tuple[int, str]:
    """Return the line of an error of validation, and its text without the engine's name."""
    number = _NUMBER.search(message)
    if number is None or int(number[1]) >= len(rules):
        return 1, message
    return rules[int(number[1])].line, re.sub(r"^for policy `policy\d+`, ", "", message)


def _shipped(name: str) -> str:
    return resources.files("atdp.access.cedar").joinpath(name).read_text("utf-8")
