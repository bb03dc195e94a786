"""Scores of a policy on labelled text, against cases computed by hand and by presidio-research."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from atdp.governance.errors import PolicyError, UnreadableLabels
from atdp.governance.evaluation.labelled_texts import (
    LabelledSpan,
    LabelledText,
    read_labelled_texts,
)
from atdp.governance.evaluation.policy_evaluation import (
    PolicyFinder,
    SpanFinder,
    evaluate,
    read_policy,
)
from atdp.governance.evaluation.presidio_peers import presidio_peers
from atdp.governance.evaluation.span_scores import ScoreCounts, SpanScores, span_counts
from atdp.governance.policy import CompiledPolicy

SCORED = Path(__file__).with_name("presidio_research_scores.jsonl").read_text().splitlines()
"""Random labels and predictions, scored by presidio-evaluator 0.3.2: `SpanEvaluator` with character
IoU of 0.75 and punctuation as its skip words. `found` of `of` are its counts without labels,
`entities` the annotated and true positives of each entity. `right` is null where several
predictions overlap one label, which it counts as one prediction."""


def spans(rows: Sequence[Sequence[int | str]]) -> list[LabelledSpan]:
    return [LabelledSpan(int(start), int(end), str(entity)) for start, end, entity in rows]


def unlabelled(labelled: Sequence[LabelledSpan]) -> list[LabelledSpan]:
    return [LabelledSpan(each.start, each.end, "*") for each in labelled]


@pytest.mark.parametrize("line", SCORED)
def test_counts_are_those_of_presidio_research(line: str) -> None:
    case = json.loads(line)
    labelled, predicted = spans(case["labelled"]), spans(case["predicted"])
    counts = span_counts(case["text"], unlabelled(labelled), unlabelled(predicted))
    assert (counts.labelled, counts.found) == (case["of"], case["found"])
    assert case["right"] in {None, counts.right}
    scores = SpanScores()
    scores.add(case["text"], labelled, predicted)
    by_entity = {
        entity: [each.labelled, each.found]
        for (measure, entity), each in scores.counts.items()
        if measure == "same entity" and entity != "ALL" and each.labelled
    }
    assert by_entity == {name: each for name, each in case["entities"].items() if each[0]}


@pytest.mark.parametrize(
    ("labelled", "predicted", "expected"),
    [
        # "Ann Lee" (0-7) against "Ann Le": 6 of 7 characters.
        ([(0, 7)], [(0, 6)], ScoreCounts(1, 1, 1, 1)),
        # Against "Ann": 3 of 7.
        ([(0, 7)], [(0, 3)], ScoreCounts(1, 0, 1, 0)),
        # 6 of 8 characters in either: just at the limit of 0.75.
        ([(0, 7)], [(1, 7)], ScoreCounts(1, 1, 1, 1)),
        # Two halves with a space between them are one span.
        ([(0, 7)], [(0, 3), (4, 7)], ScoreCounts(1, 1, 1, 1)),
        # Labels on both sides of a comma are one span, which "Rome" alone does not cover.
        ([(0, 7), (9, 13)], [(9, 13)], ScoreCounts(1, 0, 1, 0)),
        # A full stop at the end does not count.
        ([(17, 21)], [(17, 22)], ScoreCounts(1, 1, 1, 1)),
        ([(0, 7)], [], ScoreCounts(1, 0, 0, 0)),
        ([], [(0, 7)], ScoreCounts(0, 0, 1, 0)),
    ],
)
def test_spans_match_from_three_quarters_on(
    labelled: list[tuple[int, int]],
    predicted: list[tuple[int, int]],
    expected: ScoreCounts,
) -> None:
    text = "Ann Lee, Rome or Oslo."
    counts = span_counts(
        text,
        [LabelledSpan(*each, "*") for each in labelled],
        [LabelledSpan(*each, "*") for each in predicted],
    )
    assert counts == expected


def test_precision_recall_and_f2_by_hand() -> None:
    counts = ScoreCounts(labelled=4, found=3, predicted=6, right=3)
    assert (counts.precision, counts.recall) == (0.5, 0.75)
    assert counts.f2 == pytest.approx(5 * 0.5 * 0.75 / (4 * 0.5 + 0.75))
    assert ScoreCounts(labelled=1, predicted=2).f2 == 0
    assert ScoreCounts(predicted=2).f2 is None


def test_characters_count_letters_and_digits_whatever_their_label() -> None:
    scores = SpanScores()
    text = "call 555-0100 or Ann"
    scores.add(
        text,
        [LabelledSpan(5, 13, "PHONE_NUMBER"), LabelledSpan(17, 20, "PERSON")],
        [LabelledSpan(0, 8, "PERSON")],
    )
    assert scores.counts["character", "ALL"] == ScoreCounts(10, 3, 7, 3)
    assert scores.counts["character", "PHONE_NUMBER"] == ScoreCounts(7, 3, 0, 0)
    assert scores.counts["character", "PERSON"] == ScoreCounts(3, 0, 7, 3)


def labelled_object(text: str, **values: str) -> dict[str, object]:
    return {
        "full_text": text,
        "masked": None,
        "spans": [
            {
                "entity_type": entity,
                "entity_value": value,
                "start_position": text.index(value),
                "end_position": text.index(value) + len(value),
            }
            for entity, value in values.items()
        ],
    }


TEXTS = [
    labelled_object("Write to kira@zedmail.com please.", EMAIL="kira@zedmail.com"),
    labelled_object("My SSN is 536-90-4399, thanks.", US_SSN="536-90-4399"),
]


@pytest.mark.parametrize("form", ["list", "lines"])
def test_both_forms_of_the_file_are_read(tmp_path: Path, form: str) -> None:
    file = tmp_path / "labelled.json"
    lines = [json.dumps(each) for each in TEXTS]
    file.write_text(json.dumps(TEXTS, indent=1) if form == "list" else "\n".join(lines))
    first, second = read_labelled_texts(file)
    assert first.spans == (LabelledSpan(9, 25, "EMAIL_ADDRESS"),)
    assert second.text[second.spans[0].start : second.spans[0].end] == "536-90-4399"


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    file = tmp_path / "labelled.jsonl"
    texts = [labelled_object("from\u2028kira", PERSON="kira"), labelled_object("x", PERSON="x")]
    file.write_text("\r\n".join(json.dumps(each, ensure_ascii=False) for each in texts))
    assert [each.text for each in read_labelled_texts(file)] == ["from\u2028kira", "x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no text"),
        ("[]", "holds no text"),
        ("[" * 100_000 + "]" * 100_000, "is no JSON list: RecursionError"),
        ("[1]", "text 1: the text is no object; a text has full_text and spans"),
        ('[{"full_text": "a", "spans": [3]}]', r"text 1: spans\.0 is no object"),
        ("[1", "no JSON list"),
        ("not json at all", "line 1 is no JSON object: Expecting value at column 1;"),
        ('[{"text": "a secret"}]', "text 1: full_text: Field required"),
        (json.dumps(labelled_object("a secret")), "no text has a span"),
        (
            json.dumps(labelled_object("a secret", X="secret")).replace(": 8", ": 90"),
            "span 1 ends before it begins or after the text",
        ),
        (
            json.dumps(TEXTS[0]).replace('"start_position": 9', '"start_position": 7'),
            "entity_value of span 1 is not what stands",
        ),
    ],
)
def test_a_file_of_another_form_is_refused_without_quoting_it(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "labelled.json"
    file.write_text(content)
    with pytest.raises(UnreadableLabels, match=message) as error:
        read_labelled_texts(file)
    assert "secret" not in str(error.value)
    assert "kira" not in str(error.value)


def test_policy_and_plain_presidio_are_measured_alike(
    default_policy: CompiledPolicy, tmp_path: Path
) -> None:
    file = tmp_path / "labelled.json"
    file.write_text(json.dumps(TEXTS))
    texts = read_labelled_texts(file)
    done: list[int] = []
    finders: list[SpanFinder] = [PolicyFinder(default_policy)]
    finders += presidio_peers(["EMAIL_ADDRESS", "US_SSN"])
    for finder in finders:
        rows = {(row.measure, row.entity): row for row in evaluate(finder, texts, done.append)}
        assert rows["span", "ALL"].f2 == 1
        assert rows["same entity", "EMAIL_ADDRESS"].recall == 1
        assert rows["character", "ALL"].labelled == 23
    assert done[:2] == [1, 2]


def test_a_text_that_no_event_could_hold_is_an_error(default_policy: CompiledPolicy) -> None:
    half_a_pair = LabelledText("\ud800", (LabelledSpan(0, 1, "PERSON"),))
    with pytest.raises(UnreadableLabels, match=r"text 1 cannot be searched.*lone_surrogate"):
        evaluate(PolicyFinder(default_policy), [half_a_pair])


def test_a_policy_file_that_is_none_is_refused(tmp_path: Path) -> None:
    assert read_policy(None).metadata.id == "default"
    with pytest.raises(PolicyError, match="cannot read"):
        read_policy(tmp_path / "absent.yaml")
    access = tmp_path / "access.yaml"
    access.write_text(
        "apiVersion: atdp.governance/v1\nkind: AccessPolicy\nmetadata: {id: a, version: 1}\n"
        "applies_to: {tenants: [acme]}\ncedar: permit (principal, action, resource);\n"
    )
    with pytest.raises(PolicyError, match="expected GovernancePolicy"):
        read_policy(access)
