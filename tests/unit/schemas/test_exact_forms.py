"""The exact form: equal for what is the same to the last type and the order of keys, only."""

import copy
import enum
import json
import subprocess
import sys
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.schemas import exact_form, form_of_json, has_form

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2, 0.0, -0.0, 1.0, 2.0, float("nan"), float("inf"), 1 << 31, 1 << 63]),
    st.sampled_from(["", "1", "a", "é", "é", "😀", "\ud83d", "\ud83d\ude00", "x" * 300]),
    st.text(max_size=5),
)
VALUES = st.recursive(
    LEAVES,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inside, max_size=3),
    ),
    max_leaves=8,
)


def look_alike(value: Any, draw: Any) -> Any:
    """Return a value that may equal `value` for Python and be another one as JSON."""
    match value:
        case bool() | int() | float():
            return draw(st.sampled_from([value, value + 0, value * 1.0 if abs(value) < 1e9 else 0]))
        case dict():
            items = [(key, look_alike(item, draw)) for key, item in value.items()]
            return dict(reversed(items) if draw(st.booleans()) else items)
        case list() | tuple():
            items = [look_alike(item, draw) for item in value]
            return draw(st.sampled_from([list, tuple]))(items)
        case _:
            return value


@given(VALUES, st.data())
def test_forms_are_equal_exactly_where_values_are_the_same(value: Any, data: st.DataObject) -> None:
    other = look_alike(copy.deepcopy(value), data.draw)
    form = exact_form(value)
    assert form is not None
    assert has_form(other, form) == (exact_form(other) == form) == (repr(other) == repr(value))


@given(VALUES, VALUES)
def test_forms_of_different_values_differ(value: Any, other: Any) -> None:
    assert (exact_form(value) == exact_form(other)) == (repr(value) == repr(other))


@given(VALUES)
def test_a_form_does_not_depend_on_how_objects_are_shared(value: Any) -> None:
    shared = [value, value, sys.intern("a" * 3), "b" * len("bbb")]
    assert exact_form(shared) == exact_form(copy.deepcopy(shared))


def test_the_form_of_parsed_json_is_its_exact_form() -> None:
    value = json.loads('{"a": [1, 1.0, true, null, "x"], "b": {"c": "\\u00e9"}}')
    assert form_of_json(value) == exact_form(value)


class Colour(enum.IntEnum):
    RED = 1


class Role(str):
    __slots__ = ()


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Items(list[Any]):
    pass


LOOPED: list[Any] = []
LOOPED.append(LOOPED)


@pytest.mark.parametrize(
    "odd",
    [
        b"1",
        bytearray(b"1"),
        memoryview(b"1"),
        {1, 2},
        Colour.RED,
        Role("user"),
        OrderedDict(a=1),
        Items([1]),
        AlwaysEqual(),
        SimpleNamespace(a=1),
        1j,
        LOOPED,
        (lambda: None).__code__,
    ],
)
def test_other_types_have_no_form_and_the_form_of_nothing_else(odd: Any) -> None:
    assert exact_form(odd) is None
    assert exact_form({"a": [odd]}) is None
    for plain in ("1", "user", 1, [1], {"a": 1}, None):
        form = exact_form({"a": [plain]})
        assert form is not None
        assert not has_form({"a": [odd]}, form)


def test_an_audit_hook_that_refuses_is_no_reason_to_fail() -> None:
    code = (
        "import sys\n"
        "from atdp.schemas import exact_form, has_form\n"
        "def refuse(event, _):\n"
        "    if event == 'marshal.dumps':\n"
        "        raise PermissionError(event)\n"
        "sys.addaudithook(refuse)\n"
        "assert exact_form({}) is None and not has_form({}, b'')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
