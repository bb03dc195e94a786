"""The fields of feedback: what is taken, and which field a refusal names."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.gateway.feedback.feedback_fields import MAX_TEXT_CHARACTERS, read_feedback
from atdp.runtime import HttpProblem
from atdp.schemas import Feedback

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def feedback(**fields: Any) -> Feedback:
    return Feedback(observed_at=NOW, **fields)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"thumbs": "up", "comment": "good\n👍"},
            feedback(
                type="thumbs",
                value=1.0,
                scale="thumbs",
                range_min=0.0,
                range_max=1.0,
                text="good\n👍",
            ),
        ),
        (
            {"thumbs": "down", "dimension": "tone"},
            feedback(
                type="thumbs",
                value=0.0,
                scale="thumbs",
                range_min=0.0,
                range_max=1.0,
                dimension="tone",
            ),
        ),
        (
            {"score": 4},
            feedback(type="rating", value=4.0, scale="score", range_min=1.0, range_max=5.0),
        ),
        (
            {"score": -0.5, "range": [-1, 1]},
            feedback(type="rating", value=-0.5, scale="score", range_min=-1.0, range_max=1.0),
        ),
        ({"comment": "hm"}, feedback(type="comment", text="hm")),
        ({"decision": "accept"}, feedback(type="accept")),
        ({"decision": "reject", "comment": "no"}, feedback(type="reject", text="no")),
        ({"decision": "edit", "corrected_text": "new"}, feedback(type="edit", text="new")),
    ],
)
def test_one_thing_is_said(body: dict[str, Any], expected: Feedback) -> None:
    assert read_feedback(body, NOW) == [expected]


def test_a_comment_beside_an_edit_is_feedback_of_its_own() -> None:
    body = {"decision": "edit", "corrected_text": "new", "comment": "too long"}
    assert [(each.type, each.text) for each in read_feedback(body, NOW)] == [
        ("edit", "new"),
        ("comment", "too long"),
    ]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "'thumbs' is missing"),
        ({"thumbs": "sideways"}, "'thumbs'"),
        ({"thumbs": True}, "'thumbs'"),
        ({"thumbs": ["up"]}, "'thumbs'"),
        ({"thumbs": "up", "score": 3}, "'score' stands beside 'thumbs'"),
        ({"score": 0}, "'score' must be a number from 1 to 5"),
        ({"score": 6}, "'score'"),
        ({"score": "3"}, "'score'"),
        ({"score": True}, "'score'"),
        ({"score": float("nan")}, "'score'"),
        ({"score": 1, "range": [5, 1]}, "'range'"),
        ({"score": 1, "range": [1, 1]}, "'range'"),
        ({"score": 1, "range": [0, float("inf")]}, "'range'"),
        ({"score": 1, "range": "1-5"}, "'range'"),
        ({"thumbs": "up", "range": [1, 5]}, "'range' belongs to 'score'"),
        ({"decision": "maybe"}, "'decision'"),
        ({"decision": ["edit"]}, "'decision'"),
        ({"decision": "edit"}, "'corrected_text'"),
        ({"decision": "accept", "corrected_text": "x"}, "'corrected_text'"),
        ({"thumbs": "up", "corrected_text": "x"}, "'corrected_text'"),
        ({"comment": ""}, "'comment'"),
        ({"comment": 5}, "'comment'"),
        ({"comment": "a\x00b"}, "'comment' has control characters"),
        ({"comment": "a\x1b[31mb"}, "'comment' has control characters"),
        ({"comment": "x" * (MAX_TEXT_CHARACTERS + 1)}, "'comment'"),
        ({"thumbs": "up", "dimension": "a\nb"}, "'dimension'"),
    ],
)
def test_a_refusal_names_the_field_and_quotes_no_value(body: dict[str, Any], names: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        read_feedback(body, NOW)
    assert refused.value.status == 422
    assert names in str(refused.value)
    assert "sideways" not in str(refused.value)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("thumbs", "score", "range", "decision", "corrected_text", "comment", "dimension"), JSON
        ),
    )
)
def test_any_json_is_read_or_refused(body: dict[str, Any]) -> None:
    with suppress(HttpProblem):
        assert read_feedback(body, NOW)
