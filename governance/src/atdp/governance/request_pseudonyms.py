"""Pseudonymising a chat request before a model reads it.

`pseudonymised_request` is a pure function of a request and a governor of strings. What a model has
read under surrogates needs no redaction afterwards, so its token ids stay exact. Texts of messages,
arguments of tool calls and descriptions of tools are governed like the strings of an event; the
words of the protocol (roles, types, names of models and tools, ids of calls) stay, because the
engine and the client compare them.
"""

from collections.abc import Mapping
from typing import Any, Final

from atdp.governance.walk.string_governor import StringGovernor

_TOP_LEVEL: Final = frozenset({"model", "tool_choice", "response_format"})
"""Fields of a request that are left alone."""
_PROTOCOL: Final[Mapping[str, frozenset[str]]] = {
    "messages": frozenset({"role", "type", "id", "tool_call_id", "detail"}),
    "tools": frozenset({"type", "required", "format", "pattern", "strict"}),
}
"""Names whose values are left alone within messages and tools."""
_NAMED: Final = frozenset({"function", "tool", "custom"})
"""Objects whose `name` is the name of a tool."""


def pseudonymised_request(
    strings: StringGovernor, request: Mapping[str, Any], trajectory: str
) -> dict[str, Any]:
    """Return a chat request (Chat Completions form) with surrogates in place of values.

    `trajectory`: the scope of operators with the scope `trajectory`. The request is not changed.

    Raises:
        Refusal, EventDropped: the policy does not let the request pass.
    """
    return {
        name: value
        if name in _TOP_LEVEL
        else _governed(strings, value, trajectory, _PROTOCOL.get(name, frozenset()))
        for name, value in request.items()
    }


def _governed(strings: StringGovernor, value: Any, trajectory: str, kept: frozenset[str]) -> Any:
    if isinstance(value, str):
        text = strings.text(value, trajectory).text
        return "" if text is None else text
    if isinstance(value, list):
        return [_governed(strings, item, trajectory, kept) for item in value]
    if not isinstance(value, dict):
        return value
    governed = {}
    for name, item in value.items():
        if name in kept:
            governed[name] = item
        else:
            inner = kept | {"name"} if kept and name in _NAMED else kept
            governed[name] = _governed(strings, item, trajectory, inner)
    return governed
