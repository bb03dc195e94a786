"""Documents that real instrumentations sent become events and come back whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from atdp.schemas import Action, Event

from .round_trip import OPENINFERENCE, OTEL, Converter, assert_comes_back

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.jsonl"))
ASKED = "How warm is it in Zürich? 🌡"


def requests_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def merged(requests: list[Any]) -> Any:
    document: dict[str, list[Any]] = {}
    for request in requests:
        for signal, blocks in request.items():
            document.setdefault(signal, []).extend(blocks)
    return document


def format_of(path: Path) -> tuple[str, Converter]:
    if path.name.startswith("openinference"):
        return "openinference", OPENINFERENCE
    return "otel", OTEL


def generations(events: list[Event]) -> list[Action]:
    bodies = [event.body for event in events if isinstance(event.body, Action)]
    return [body for body in bodies if body.type == "generation"]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_each_request_and_all_of_them_together_come_back_whole(path: Path) -> None:
    requests = requests_of(path)
    for document in (*requests, merged(requests)):
        assert_comes_back(document, format_of(path)[1])


@pytest.mark.parametrize(
    ("name", "calls", "tools"),
    [
        ("genai_openai.traces", 4, 0),
        ("genai_openai_v2.traces", 4, 0),
        ("genai_openai_agents.traces", 0, 1),
        ("openinference_openai.traces", 4, 0),
        ("openinference_openai_agents.traces", 3, 2),
        ("openinference_langgraph.traces", 2, 1),
    ],
)
def test_every_model_call_and_tool_call_is_an_action(name: str, calls: int, tools: int) -> None:
    (path,) = [path for path in CAPTURES if path.stem == name]
    events = assert_comes_back(merged(requests_of(path)), format_of(path)[1])
    actions = [event.body for event in events if isinstance(event.body, Action)]
    assert len([each for each in actions if each.type == "tool_call"]) == tools
    first_choices = [
        each.generation
        for each in generations(events)
        if each.generation and each.generation.choice_index in {None, 0}
    ]
    assert len(first_choices) == calls
