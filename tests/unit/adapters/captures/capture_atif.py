# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["nvidia-nat-atif[full]==1.9.0"]
# ///
# mypy: ignore-errors
"""Lets NeMo's own converter write an ATIF 1.7 document, with a sub-agent and tool calls.

`uv run --no-project --script capture_atif.py` writes `nat_subagent.atif.json` beside itself. What
happened is made up; the form is that of `nvidia-nat-atif`.
"""

from pathlib import Path

from nat.atof.events import ScopeEvent
from nat.atof.scripts.atof_to_atif_converter import convert

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Zürich"}'},
}


def scope(number: int, parent: int | None, category: str, name: str, *inside: object) -> list:
    """Return the start of a scope, what is inside, and its end; the first and last are its data."""
    common = {
        "uuid": f"scope-{number}",
        "parent_uuid": None if parent is None else f"scope-{parent}",
        "name": name,
        "category": category,
    }
    if category == "llm":
        common["category_profile"] = {"model_name": "played"}
    if category == "tool":
        common["category_profile"] = {"tool_call_id": "call_1"}
    given, *events, result = inside
    return [
        {**common, "scope_category": "start", "data": given},
        *events,
        {**common, "scope_category": "end", "data": result},
    ]


def answer(message: dict) -> dict:
    usage = {"prompt_tokens": 21, "completion_tokens": 7, "total_tokens": 28}
    return {"choices": [{"index": 0, "message": message}], "model": "played", "usage": usage}


def main() -> None:
    """Write the document."""
    asked = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How warm is it in Zürich? 🌡"},
    ]
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    told = [*asked, called, {"role": "tool", "tool_call_id": "call_1", "content": "57 °F"}]
    said = {"role": "assistant", "content": "It is 57 °F."}
    checked = {"messages": [{"role": "user", "content": "Check it."}]}
    right = answer({"role": "assistant", "content": "It is right."})
    inner = scope(5, 4, "llm", "played", checked, right)
    expert = scope(4, 3, "agent", "expert", "Check it.", *inner, "It is right.")
    events = scope(
        *(1, None, "agent", "front", asked[1]["content"]),
        *scope(2, 1, "llm", "played", {"messages": asked}, answer(called)),
        *scope(3, 1, "tool", "weather", {"city": "Zürich"}, *expert, "57 °F"),
        *scope(6, 1, "llm", "played", {"messages": told}, answer(said)),
        said["content"],
    )
    times = [f"2026-03-01T10:00:{second:02d}.123456Z" for second in range(len(events))]
    made = [ScopeEvent(timestamp=at, **each) for at, each in zip(times, events, strict=True)]
    document = convert(made)
    path = Path(__file__).with_name("nat_subagent.atif.json")
    path.write_text(document.model_dump_json(exclude_none=True, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
