"""The fields of feedback in a request body, checked one by one, and the events' bodies from them.

A request says one thing: `thumbs`, a `score` in its `range`, a `decision` (accept, edit, reject),
or only a `comment`. A comment may stand beside each of them. An edit carries the corrected text as
its text, so a comment beside it becomes feedback of its own.
"""

import math
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NoReturn, cast, get_args

from atdp.gateway.request_body import text_field
from atdp.runtime import HttpProblem
from atdp.schemas import Feedback

Decision = Literal["accept", "edit", "reject"]

FEEDBACK_FIELDS = frozenset(
    {"thumbs", "score", "range", "decision", "corrected_text", "comment", "dimension"}
)
MAX_TEXT_CHARACTERS = 20_000
_DEFAULT_RANGE = (1.0, 5.0)
_THUMBS = {"up": 1.0, "down": 0.0}
_LINE_BREAKS = frozenset("\n\r\t")


def read_feedback(body: Mapping[str, Any], at: datetime) -> list[Feedback]:
    """Return the feedback in a body, without a target: one, or two for an edit with a comment.

    Raises:
        HttpProblem: 422, which names the field that is wrong.
    """
    given = [name for name in ("thumbs", "score", "decision") if body.get(name) is not None]
    if len(given) > 1:
        _refuse(given[1], f"stands beside {given[0]!r}; send one of them in a request")
    comment = _text(body, "comment")
    if not given and comment is None:
        _refuse("thumbs", "is missing: send 'thumbs', 'score', 'decision' or 'comment'")
    for name, wanted in (("range", "score"), ("corrected_text", "decision")):
        if body.get(name) is not None and given != [wanted]:
            _refuse(name, f"belongs to {wanted!r}, which is missing")
    dimension = text_field(dict(body), "dimension")
    said = Feedback(type="comment", text=comment, dimension=dimension, observed_at=at)
    match given:
        case ["thumbs"]:
            return [thumbs_feedback(body["thumbs"], said)]
        case ["score"]:
            return [_score(body, said)]
        case ["decision"]:
            return _decision(body, said)
    return [said]


def thumbs_feedback(thumbs: object, said: Feedback) -> Feedback:
    """Return thumbs up or down, with the text and the dimension of `said`.

    Raises:
        HttpProblem: 422 when it is neither.
    """
    if not isinstance(thumbs, str) or thumbs not in _THUMBS:
        _refuse("thumbs", "must be 'up' or 'down'")
    return Feedback(
        type="thumbs",
        value=_THUMBS[thumbs],
        scale="thumbs",
        range_min=0.0,
        range_max=1.0,
        dimension=said.dimension,
        text=said.text,
        observed_at=said.observed_at,
    )


def has_control_characters(text: str) -> bool:
    """Return whether a text holds control characters other than line breaks and tabs."""
    return any(
        unicodedata.category(character) == "Cc" and character not in _LINE_BREAKS
        for character in text
    )


def _score(body: Mapping[str, Any], said: Feedback) -> Feedback:
    low, high = _range(body.get("range"))
    score = _number(body["score"])
    if score is None or not low <= score <= high:
        _refuse("score", f"must be a number from {low:g} to {high:g} ('range' sets other bounds)")
    return Feedback(
        type="rating",
        value=score,
        scale="score",
        range_min=low,
        range_max=high,
        dimension=said.dimension,
        text=said.text,
        observed_at=said.observed_at,
    )


def _decision(body: Mapping[str, Any], said: Feedback) -> list[Feedback]:
    decision = body["decision"]
    if decision not in get_args(Decision):
        _refuse("decision", "must be 'accept', 'edit' or 'reject'")
    corrected = _text(body, "corrected_text")
    if (decision == "edit") != (corrected is not None):
        _refuse("corrected_text", "must be the text after the edit, and only an edit has one")
    decided = Feedback(
        type=cast("Decision", decision),
        dimension=said.dimension,
        text=said.text if corrected is None else corrected,
        observed_at=said.observed_at,
    )
    return [decided] if corrected is None or said.text is None else [decided, said]


def _range(given: object) -> tuple[float, float]:
    if given is None:
        return _DEFAULT_RANGE
    bounds = [_number(each) for each in given] if isinstance(given, list) else []
    low, high = bounds if len(bounds) == 2 else (None, None)
    if low is None or high is None or low >= high or not math.isfinite(high - low):
        _refuse("range", "must be two numbers, the lowest and the highest score, e.g. [1, 5]")
    return low, high


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _text(body: Mapping[str, Any], name: str) -> str | None:
    text = body.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_TEXT_CHARACTERS:
        _refuse(name, f"must be text of 1 to {MAX_TEXT_CHARACTERS} characters")
    if has_control_characters(text):
        _refuse(name, "has control characters; only line breaks and tabs are taken")
    return text


def _refuse(name: str, problem: str) -> NoReturn:
    raise HttpProblem(422, "bad_feedback", f"{name!r} {problem}")
