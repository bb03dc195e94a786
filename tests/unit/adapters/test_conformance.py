"""The events of every importer keep the rules of events and of sequences."""

import json
from pathlib import Path
from typing import Any

import pytest

from atdp.adapters import IMPORTERS, run_import
from atdp.schemas import Event, check_producer, event_to_json, read_events

from .otlp_documents import document, span
from .real_documents import ATIF
from .tau_files import FILE
from .test_atif import FULL
from .test_import_run import KeepingRecorder
from .test_openinference import CALL as OPENINFERENCE_CALL
from .test_otel import CALL as OTEL_CALL

DOCUMENTS: dict[str, Any] = {
    "atif": FULL,
    "otel": document([span(1, "chat m", OTEL_CALL), span(2, "chat m", OTEL_CALL)]),
    "openinference": document([span(1, "chat", OPENINFERENCE_CALL)]),
    "tau-bench": json.loads(FILE.read_text("utf-8")),
}


def imported(format_name: str, path: Path) -> list[Event]:
    kept = KeepingRecorder()
    report = run_import(format_name, [path], "acme", kept)
    assert report.ok
    return kept.events


def broken_rules(folder: Path, documents: list[dict[str, Any]]) -> set[str]:
    file = folder / "events.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in documents), "utf-8")
    report = check_producer(read_events(file))
    assert report.items == len(documents) > 1
    return {each.rule_id for each in report if each.failed}


def test_every_importer_has_a_document_here() -> None:
    assert set(DOCUMENTS) == set(IMPORTERS)


@pytest.mark.parametrize("format_name", DOCUMENTS)
def test_an_import_keeps_every_rule_and_a_changed_one_breaks_exactly_its_own(
    tmp_path: Path, format_name: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(DOCUMENTS[format_name]), "utf-8")
    events = [event_to_json(event) for event in imported(format_name, path)]
    assert broken_rules(tmp_path, events) == set()
    for change, rule in (
        ({"event_id": "e-1"}, "Event.event_id"),
        ({"attempt": "first"}, "Event.encoding"),
        ({"ext_json": "[]"}, "Event.json_object"),
        ({"seq": len(events)}, "Sequence.seq_gapless"),
    ):
        changed = [*events[:-1], {**events[-1], **change}]
        assert broken_rules(tmp_path, changed) == {rule}
    assert broken_rules(tmp_path, [*events, {**events[0], "status": "error"}]) == {
        "Sequence.event_id"
    }


@pytest.mark.skipif(not ATIF, reason="the real documents are not at hand")
def test_real_documents_keep_every_rule(tmp_path: Path) -> None:
    events = [event for path in ATIF for event in imported("atif", path)]
    assert broken_rules(tmp_path, [event_to_json(event) for event in events]) == set()
