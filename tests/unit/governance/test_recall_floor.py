"""The floor of recall that a policy states."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from atdp.governance import PolicyDocument, measure_recall, parse_policy
from atdp.governance.errors import UnreadableLabels

TEXTS = [("mail bob@corp.io now", "bob@corp.io", "EMAIL"), ("badge AC-1234", "AC-1234", "BADGE")]


def policy(**changes: Any) -> PolicyDocument:
    document = parse_policy(
        yaml.safe_dump(
            {
                "apiVersion": "atdp.governance/v1",
                "kind": "GovernancePolicy",
                "metadata": {"id": "small", "version": 1},
                "applies_to": {"tenants": ["acme"]},
                "entities": {"EMAIL_ADDRESS": {"do": "replace"}},
                "fields": [{"path": "**", "do": "scan"}],
                **changes,
            }
        ),
        where="small.yaml",
    )
    assert isinstance(document, PolicyDocument)
    return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = [
        {
            "full_text": text,
            "spans": [
                {
                    "entity_type": entity,
                    "start_position": text.index(value),
                    "end_position": text.index(value) + len(value),
                }
            ],
        }
        for text, value, entity in TEXTS
    ]
    (tmp_path / "labelled.json").write_text(json.dumps(texts))
    return tmp_path


def test_recall_is_measured_for_each_entity_of_the_floor(folder: Path) -> None:
    document = policy(
        evaluation="labelled.json",
        min_recall={"EMAIL_ADDRESS": 0.9, "BADGE": 0.5, "PERSON": 0.1, "ALL": 0.6},
    )
    results = {result.entity: result for result in measure_recall(document, folder)}
    assert results["EMAIL_ADDRESS"].recall == 1.0
    assert results["EMAIL_ADDRESS"].is_met
    assert results["BADGE"].recall == 0.0
    assert not results["BADGE"].is_met
    # 9 letters and digits of the address, of 15.
    assert results["ALL"].recall == pytest.approx(9 / 15)
    assert results["ALL"].is_met


def test_an_entity_that_no_text_is_labelled_with_does_not_meet_its_floor(folder: Path) -> None:
    document = policy(evaluation="labelled.json", min_recall={"PERSON": 0.01})
    (result,) = measure_recall(document, folder)
    assert (result.recall, result.labelled, result.is_met) == (None, 0, False)


def test_without_a_floor_nothing_is_read(tmp_path: Path) -> None:
    assert measure_recall(policy(evaluation="missing.json"), tmp_path) == ()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLabels, match=r"missing\.json"):
        measure_recall(policy(evaluation="missing.json", min_recall={"ALL": 0.5}), tmp_path)
