"""The vectors of the conformance suite are those of today's rules, and the checks agree with them.

Refresh the files with `ATDP_UPDATE_GOLDEN=1 pytest tests/contract/test_conformance_vectors.py` and
review the diff.
"""

import json
import os
from pathlib import Path

import pytest

from atdp.schemas import (
    KIND_OF_BODY,
    SEQUENCE_RULES,
    VECTOR_FILES,
    ConformanceVector,
    check,
    check_sequence,
    check_vectors,
    contract_rules,
    decode,
    event_from_json,
    event_vectors,
    sequence_vectors,
    vector_text,
)

from .vector_files import files

FOLDER = Path(__file__).parents[2] / "schemas/src/atdp/schemas/conformance"


def test_the_files_are_up_to_date() -> None:
    written = files()
    if os.environ.get("ATDP_UPDATE_GOLDEN") == "1":
        FOLDER.mkdir(exist_ok=True)
        for name, text in written.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    assert {name: vector_text(name) for name in VECTOR_FILES} == written


def test_the_checks_agree_with_every_vector() -> None:
    report = check_vectors()
    assert [(verdict.rule_id, verdict.places) for verdict in report if verdict.failed] == []
    assert report.items == len(event_vectors()) + len(sequence_vectors())


def test_every_rule_has_vectors_to_accept_and_to_reject() -> None:
    verdicts = {(vector.rule, vector.verdict) for vector in event_vectors() + sequence_vectors()}
    rules = [rule.id for rule in contract_rules()] + [rule.id for rule in SEQUENCE_RULES]
    for rule in rules:
        assert (rule, "reject") in verdicts
    assert {rule for rule, verdict in verdicts if verdict == "accept"} >= {
        rule for rule in rules if rule != "Sequence.seq_order"
    }


@pytest.mark.parametrize("vector", sequence_vectors(), ids=lambda vector: vector.id)
def test_a_bad_sequence_breaks_exactly_its_rule_and_no_rule_of_events(
    vector: ConformanceVector,
) -> None:
    events = vector.read()
    expected = () if vector.verdict == "accept" else (vector.rule,)
    assert check_sequence(events) == expected
    assert [violation for event in events for violation in check(event)] == []


def test_vectors_have_ids_of_their_own_and_golden_ones_cover_every_kind() -> None:
    vectors = event_vectors() + sequence_vectors()
    assert len({vector.id for vector in vectors}) == len(vectors)
    golden = [vector for vector in event_vectors() if vector.id.startswith("golden/")]
    assert {event.kind for vector in golden for event in vector.read()} == set(
        KIND_OF_BODY.values()
    )
    for vector in golden:
        assert decode(vector.avro[0]) == event_from_json(vector.events[0])


def test_the_files_are_json_that_any_language_reads() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for name in VECTOR_FILES:
        for line in vector_text(name).splitlines():
            assert line.isascii()
            json.loads(line, parse_constant=refuse)
