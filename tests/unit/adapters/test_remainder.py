"""The remainder of a document: what it is, and that nothing is lost, whatever the values are."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.adapters.documents.remainder import (
    remainder_json,
    remainder_of,
    restore_from,
    same_json,
)

KEYS = st.sampled_from(["a", "b", "0", "1", "$value", "$absent"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(written=JSON, source=JSON)
def test_any_source_is_restored_from_anything_written(written: Any, source: Any) -> None:
    rest = remainder_json(written, source)
    assert same_json(restore_from(written, rest), source)
    assert (rest is None) == same_json(written, source)


def test_the_remainder_repeats_nothing_that_was_written() -> None:
    written = {"message": "secret", "calls": [{"id": "1"}, {"id": "2"}], "gone": 1}
    source = {"message": "secret", "calls": [{"id": "1"}, {"id": "2", "x": 3}], "new": None}
    rest = remainder_of(written, source)
    assert rest == {"calls": {"1": {"x": 3}}, "gone": {"$absent": True}, "new": None}
    assert "secret" not in json.dumps(rest)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), ([], {}), ("1", 1)])
def test_values_of_different_types_are_not_the_same(one: Any, other: Any) -> None:
    assert not same_json(one, other)
    assert same_json(restore_from(one, remainder_json(one, other)), other)
