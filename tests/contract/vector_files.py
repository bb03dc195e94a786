"""The making of the conformance vectors: from the rules' examples, golden events and sequences."""

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atdp.schemas import (
    ENCODING_RULE,
    TrajectoryId,
    contract_rules,
    deterministic_event_id,
    encode,
    event_from_json,
    event_to_json,
    newest,
    rule_examples,
)

from .sequence_stories import STORIES, Story

GOLDEN = Path(__file__).parent / "golden" / f"event.v{newest('event').version}"
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_EXAMPLE = {
    "event_id": "019aa5c0-0000-7000-8000-000000000001",
    "trajectory_id": "t-1",
    "tenant_id": "acme",
}
"""Envelope fields of the rules' examples that vectors replace by their own."""
TENANT = "conformance"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A vector before it has its line."""

    id: str
    rule: str
    good: bool
    sentence: str
    documents: tuple[dict[str, Any], ...]
    with_avro: bool = False

    def line(self) -> str:
        fields: dict[str, Any] = {
            "id": self.id,
            "rule": self.rule,
            "verdict": "accept" if self.good else "reject",
            "sentence": self.sentence,
        }
        if _has_json_form(self.documents):
            fields["events"] = self.documents
        if self.with_avro or "events" not in fields:
            events = [event_from_json(document) for document in self.documents]
            fields["avro"] = [base64.b64encode(encode(event)).decode() for event in events]
        return json.dumps(fields, allow_nan=False) + "\n"


def files() -> dict[str, str]:
    """Return the text of each file of vectors, by name."""
    single = (*_of_rules(), *_of_golden_events())
    return {
        "events.jsonl": "".join(case.line() for case in single),
        "sequences.jsonl": "".join(_of_story(story).line() for story in STORIES),
    }


def _of_rules() -> Iterator[_Case]:
    sentences = {rule.id: rule.sentence for rule in contract_rules()}
    for (rule_id, good), examples in itertools.groupby(
        rule_examples(), key=lambda example: (example.rule_id, example.good)
    ):
        for number, example in enumerate(examples, 1):
            vector_id = f"{rule_id}/{'good' if good else 'bad'}-{number}"
            document = _with_own_ids(vector_id, dict(example.document))
            yield _Case(
                id=vector_id,
                rule=rule_id,
                good=good,
                sentence=sentences[rule_id],
                documents=(document,),
            )


def _of_golden_events() -> Iterator[_Case]:
    for file in sorted(GOLDEN.glob("*.json")):
        document = json.loads(file.read_text("utf-8"))
        golden = {name: document[name] for name in ("event_id", "trajectory_id", "tenant_id")}
        document = _with_own_ids(f"golden/{file.stem}", document, golden)
        yield _Case(
            id=f"golden/{file.stem}",
            rule=ENCODING_RULE,
            good=True,
            sentence="An event with many fields of its kind, as JSON and as Avro.",
            documents=(document,),
            with_avro=True,
        )


def _of_story(story: Story) -> _Case:
    events = [
        replace(event, trajectory_id=TrajectoryId(f"conformance-{story.id}-{event.trajectory_id}"))
        for event in story.events
    ]
    return _Case(
        id=story.id,
        rule=story.rule,
        good=story.good,
        sentence=story.sentence,
        documents=tuple(event_to_json(event) for event in events),
    )


def _with_own_ids(
    vector_id: str, document: dict[str, Any], replaced: dict[str, str] = _EXAMPLE
) -> dict[str, Any]:
    """Return the document with ids of its own, except for those that the example is about."""
    content = json.dumps(document, sort_keys=True)
    own = {
        "event_id": deterministic_event_id(_WHEN, "conformance", vector_id, content),
        "trajectory_id": f"conformance-{vector_id}",
        "tenant_id": TENANT,
    }
    changed = {name: own[name] for name, value in replaced.items() if document.get(name) == value}
    return {**document, **changed}


def _has_json_form(documents: tuple[dict[str, Any], ...]) -> bool:
    try:
        json.dumps(documents, allow_nan=False)
    except ValueError:
        return False
    return True
