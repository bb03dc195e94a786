"""The rules by which two tool calls are the same call, and whether a tool changes anything.

A call is compared by its tool and its canonical arguments (sorted keys, no spaces). A rule may
state further canonical forms for arguments whose spelling does not matter, such as dates or ids.
They give the call's normal form, which counts only under the policy `normalised`.

A tool without a known effect is taken to write, since a read that is taken for a write only lowers
the coverage, and a write that is taken for a read would answer later calls from the wrong state.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from atdp.schemas import ToolCall, canonical_json, parsed_json

Canonicaliser: TypeAlias = Literal[
    "strip", "lower", "spaces", "digits", "number", "date", "sorted", "ignore"
]
Effect: TypeAlias = Literal["read", "write"]

EVERY_ARGUMENT = "*"
_DATE_FORMATS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d.%m.%Y")
"""Forms of dates besides ISO 8601 that have one meaning; 3/4/2026 has two."""


class ToolRule(BaseModel):
    """The rule of one tool in a settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    effect: Effect | None = None
    """None: as the recordings state it, else `write`."""
    arguments: dict[str, tuple[Canonicaliser, ...]] = {}
    """Argument, or `*` for all, → its canonical forms, applied in order."""
    recorded_as: str | None = None
    """The tool's name in the recordings, where changed tool definitions give it another one."""
    renamed: dict[str, str] = {}
    """Argument → its name in the recordings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanonicalCall:
    """A tool call as it is compared."""

    tool: str
    exact: str
    """Canonical JSON of the arguments; `text:` and the text where they are not JSON."""
    normal: str
    """The same after the rule's canonical forms."""
    writes: bool

    @property
    def identity(self) -> tuple[str, str]:
        """Tool and arguments."""
        return (self.tool, self.exact)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRules:
    """The rules of all tools.

    `recorded_reads` names the tools (tenant, tool) that every recorded call states to change
    nothing.
    """

    rules: Mapping[str, ToolRule] = field(default_factory=dict)
    recorded_reads: frozenset[tuple[str, str]] = frozenset()

    def canonical(self, tenant: str, call: ToolCall) -> CanonicalCall:
        """Return a call of the tenant's agent in the form in which it is compared."""
        rule = self.rules.get(call.name, ToolRule())
        tool = rule.recorded_as or call.name
        is_text = call.tool_type == "custom"
        parsed = None if is_text else parsed_json(call.arguments or "{}")
        if parsed is None:
            exact = normal = f"text:{call.arguments}"
        else:
            arguments = json.loads(parsed)
            if isinstance(arguments, dict):
                arguments = {rule.renamed.get(name, name): v for name, v in arguments.items()}
            exact = canonical_json(arguments)
            normal = canonical_json(_normal(arguments, rule))
        return CanonicalCall(
            tool=tool, exact=exact, normal=normal, writes=self._writes(tenant, call.name, tool)
        )

    def _writes(self, tenant: str, name: str, recorded_as: str) -> bool:
        for known in (name, recorded_as):
            rule = self.rules.get(known)
            if rule is not None and rule.effect is not None:
                return rule.effect == "write"
        return (tenant, recorded_as) not in self.recorded_reads


def _normal(arguments: Any, rule: ToolRule) -> Any:
    if not isinstance(arguments, dict):
        return arguments
    everywhere = rule.arguments.get(EVERY_ARGUMENT, ())
    normal = {}
    for name, value in arguments.items():
        forms = (*everywhere, *rule.arguments.get(name, ()))
        if "ignore" in forms:
            continue
        for form in forms:
            value = _apply(form, value)
        normal[name] = value
    return normal


def _apply(form: Canonicaliser, value: Any) -> Any:
    if form == "sorted":
        return sorted(value, key=canonical_json) if isinstance(value, list) else value
    if isinstance(value, list):
        return [_apply(form, item) for item in value]
    return _TEXT_FORMS[form](value) if isinstance(value, str) else value


def _number(text: str) -> float | int | str:
    plain = text.strip().removeprefix("$").replace(",", "")
    try:
        number = float(plain)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _date(text: str) -> str:
    plain = text.strip()
    try:
        return datetime.fromisoformat(plain).date().isoformat()
    except ValueError:
        pass
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(plain, form).date().isoformat()  # noqa: DTZ007 (a date)
        except ValueError:
            continue
    return text


_TEXT_FORMS: Mapping[Canonicaliser, Callable[[str], Any]] = {
    "strip": str.strip,
    "lower": str.lower,
    "spaces": lambda text: " ".join(text.split()),
    "digits": lambda text: re.sub(r"\D", "", text),
    "number": _number,
    "date": _date,
}
