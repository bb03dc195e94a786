"""Everything that is wrong with a policy text, in one go, with the place of each problem.

Errors are what parsing or compiling would refuse. Warnings are what a steward may intend: less
redaction than under another policy, and patterns that see ASCII letters only. Examples of a
governance policy are not run here (see `atdp.governance.policy_examples`); the requests of an
access policy are decided.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeGuard

from pydantic import BaseModel

from atdp.access import check_access_policy
from atdp.governance.errors import PolicyError
from atdp.governance.policy.compiled import compile_policy
from atdp.governance.policy.consistency import Location, PolicyRules, inconsistencies
from atdp.governance.policy.document import DOCUMENT_KINDS, PolicyDocument, parse_policy
from atdp.governance.policy.rule_checks import ineffective_rules
from atdp.governance.policy.salvage import readable_rules
from atdp.governance.policy.suggestions import did_you_mean, keys_at
from atdp.runtime import DocumentError, DocumentProblem, YamlDocument

_PLACE: Final = re.compile(r"^.*?:(?P<line>\d+)(?::(?P<column>\d+))?: ", re.DOTALL)
_ASCII_CLASS: Final = re.compile(r"(?<!\\)(?:\\\\)*\\w")
_UNKNOWN_KEY: Final = "extra_forbidden"
_FROM_VALIDATOR: Final = "value_error"


@dataclass(frozen=True, slots=True, order=True)
class LintProblem:
    """A problem of a policy text. `line` and `column` count from 1."""

    line: int
    column: int
    level: Literal["error", "warning"]
    message: str


def lint_policy(text: str, where: str) -> list[LintProblem]:
    """Return the problems of a policy text by their places; empty: it can be used as it is."""
    try:
        document = YamlDocument.parse(text, where=where)
    except DocumentError as error:
        line, column = error.place or (1, 1)
        return [LintProblem(line, column, "error", _without_place(str(error), where))]
    kind = document.value.get("kind") if isinstance(document.value, dict) else None
    model = DOCUMENT_KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        known = " or ".join(DOCUMENT_KINDS)
        line, column = document.place_of(("kind",))
        return [LintProblem(line, column, "error", f"kind: the document must be a {known}")]
    problems = {
        LintProblem(each.line, each.column, "error", _message(each, model))
        for each in document.problems(model)
        if each.location or each.kind != _FROM_VALIDATOR or model is not PolicyDocument
    }
    if model is PolicyDocument:
        problems |= set(_policy_problems(document))
    elif not problems:
        problems |= {_placed(each) for each in check_access_policy(text, where=where)}
    if not any(each.level == "error" for each in problems):
        problems |= set(_refusal(text, where))
    return sorted(problems)


def _policy_problems(document: YamlDocument) -> Iterator[LintProblem]:
    policy: Mapping[str, Any] = document.value
    rules = readable_rules(policy)
    for problem in inconsistencies(rules):
        hint = ""
        if problem.location[-1] == "entity" or "entities" in problem.location[:2]:
            hint = _entity_hint(rules, problem.location)
        yield _at(document, problem.location, "error", problem.message + hint)
    regions = policy.get("phone_regions")
    for problem in ineffective_rules(rules, regions if _are_texts(regions) else ["US"]):
        yield _at(document, problem.location, "error", problem.message)
    for index, rule in rules.patterns.items():
        if rule.syntax == "re2" and _ASCII_CLASS.search(rule.pattern):
            yield _at(
                document,
                ("patterns", index, "pattern"),
                "warning",
                r"\w knows ASCII letters only, so a finding may end within a word such as "
                r"Zoë; write [\pL\pN_] for letters of all languages",
            )


def _entity_hint(rules: PolicyRules, location: Location) -> str:
    """Return the declared entity that an undeclared one may stand for."""
    match location:
        case ("patterns", int(index), "entity"):
            return did_you_mean(rules.patterns[index].entity, rules.declared)
        case ("keys", int(index), "entity"):
            return did_you_mean(rules.keys[index].entity, rules.declared)
        case ("ner", "entities", int(index)) if rules.ner is not None:
            return did_you_mean(rules.ner.entities[index], rules.declared)
        case ("learn", "entities", int(index)) if rules.learn.entities is not None:
            return did_you_mean(rules.learn.entities[index], rules.declared)
        case _:
            return ""


def _refusal(text: str, where: str) -> Iterator[LintProblem]:
    """Yield the error of parsing and compiling, if the checks before have missed one."""
    try:
        parsed = parse_policy(text, where=where)
        if isinstance(parsed, PolicyDocument):
            compile_policy(parsed)
    except PolicyError as error:
        yield LintProblem(1, 1, "error", str(error))


def _message(problem: DocumentProblem, model: type[BaseModel]) -> str:
    """Return a problem of validation as one sentence, with the key that may have been meant."""
    path = problem.path or "the document"
    if problem.kind != _UNKNOWN_KEY:
        return f"{path}: {problem.message}"
    key = str(problem.location[-1])
    hint = did_you_mean(key, keys_at(model, problem.location[:-1]))
    return f"{path}: there is no key {key!r} here{hint}"


def _placed(message: str) -> LintProblem:
    """Return a message that may begin with its place as a problem at that place."""
    place = _PLACE.match(message)
    if place is None:
        return LintProblem(1, 1, "error", message)
    line, column = int(place["line"]), int(place["column"] or 1)
    return LintProblem(line, column, "error", message[place.end() :])


def _at(
    document: YamlDocument, location: Location, level: Literal["error", "warning"], message: str
) -> LintProblem:
    line, column = document.place_of(location)
    return LintProblem(line, column, level, message)


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _without_place(message: str, where: str) -> str:
    return re.sub(r"^(:\d+:\d+)?: ", "", message.removeprefix(where))
