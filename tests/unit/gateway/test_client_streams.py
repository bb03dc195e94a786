"""Streams of real clients, as they sent them: each call belongs to its conversation.

`client_streams.jsonl` was recorded with the clients that it names, three conversations each, in
turn, with the same questions: a loop with the `openai` package (one call failed and was made again
by the package), the OpenAI Agents SDK with a sub-agent as a tool and with streaming, and LangGraph.
"""

import json
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from atdp.gateway.recognition.conversation_hints import read_hints
from atdp.gateway.recognition.recognised_call import RecognisableRequest
from atdp.gateway.recognition.recognition_store import RecognitionStore
from atdp.gateway.recognition.recognizer import Recognizer
from atdp.gateway.recognition.shown_history import MessageDigests
from atdp.schemas import message_from_chat, messages_from_chat

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("client_streams.jsonl").read_text("utf-8").splitlines()
]

Landed = list[tuple[dict[str, Any], str, str, str | None]]


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    """Each row with its trajectory, the rule, and the trajectory that spawned it."""
    landed: Landed = []
    with closing(RecognitionStore(tmp_path / "recognition.sqlite", "one")) as store:
        recognizer = Recognizer(store, MessageDigests(b"s" * 32), pending_s=600)
        for number, row in enumerate(ROWS):
            messages = messages_from_chat(row["body"]["messages"])
            digests = recognizer.digests
            request = RecognisableRequest(
                history=digests.history(digests.of_values("acme"), [*map(digests.facts, messages)]),
                hints=read_hints(row["headers"], row["body"]),
                family=digests.of_values("acme"),
                at=float(number),
                first_user_text=next(each.text for each in messages if each.role == "user"),
                answered_calls=tuple(each.call_id for each in messages if each.call_id),
            )
            recognised = recognizer.recognise(request)
            if "answer" in row:
                calls = [call["id"] for call in row["answer"].get("tool_calls") or []]
                answer = message_from_chat(row["answer"])
                recognizer.answered(request, recognised, [(answer, f"g{number}", calls)], None)
            else:
                recognizer.failed(recognised, f"g{number}")
            landed.append(
                (row, recognised.trajectory_id, recognised.rule, recognised.related_trajectory)
            )
    return landed


def test_every_call_is_in_the_trajectory_of_its_conversation(landed: Landed) -> None:
    trajectories = defaultdict(set)
    for row, trajectory, _, _ in landed:
        trajectories[row["conversation"]].add(trajectory)
    assert all(len(each) == 1 for each in trajectories.values()), trajectories
    assert len(set.union(*trajectories.values())) == len(trajectories) == 12


def test_a_repeated_call_of_the_openai_package_is_a_retry(landed: Landed) -> None:
    repeated = [
        rule for row, _, rule, _ in landed if row["headers"]["x-stainless-retry-count"] != "0"
    ]
    assert repeated == ["retry"]


def test_the_sub_agents_of_the_agents_sdk_have_the_trajectory_that_spawned_them(
    landed: Landed,
) -> None:
    home = {row["conversation"]: trajectory for row, trajectory, _, _ in landed}
    spawned = [(row["conversation"], parent) for row, _, _, parent in landed if parent is not None]
    assert sorted(spawned) == [
        (f"agents-{number}/tracer", home[f"agents-{number}"]) for number in (1, 2, 3)
    ]
