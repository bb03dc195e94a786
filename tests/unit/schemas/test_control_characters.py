"""Control characters are found in names, and shown as escapes."""

import json

import pytest
from hypothesis import given, strategies as st

from atdp.schemas import (
    escape_control_characters,
    escape_name,
    escape_shown_value,
    has_control_characters,
    message_from_chat,
)

ACTING = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x00",
    "\r",
    "\x7f",
    "\u061c",
    "\u200e",
    "\u202e",
    "\u2028",
    "\u2029",
    "\u2066",
    "\ud800",
]


@pytest.mark.parametrize("text", ACTING, ids=ascii)
def test_what_acts_on_a_terminal_or_a_page_is_found_and_escaped(text: str) -> None:
    assert has_control_characters(f"a{text}b")
    shown = escape_control_characters(f"a{text}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert json.loads(f'"{shown}"') == f"a{text}b"


@pytest.mark.parametrize("text", ["", "Zürich-7/ä b", "👩‍🚒", "日本　語", "שלום", "می‌خواهم"])
def test_the_letters_of_every_language_stay(text: str) -> None:
    assert not has_control_characters(text)
    assert escape_control_characters(text) == escape_name(text) == text


def test_lines_and_tabs_are_shown_in_texts_and_escaped_in_names() -> None:
    assert escape_control_characters("a\n\tb") == "a\n\tb"
    assert escape_name("a\n\tb") == "a\\u000a\\u0009b"
    assert has_control_characters("a\nb")


@given(st.text(st.characters(codec=None), max_size=20))
def test_nothing_that_acts_is_left_and_escaping_again_changes_nothing(text: str) -> None:
    name = escape_name(text)
    assert not has_control_characters(name)
    shown = escape_control_characters(text)
    assert not has_control_characters(shown.replace("\n", "").replace("\t", ""))
    assert (escape_name(name), escape_control_characters(shown)) == (name, shown)


def test_values_that_are_no_text_are_shown_as_they_are() -> None:
    class MarkupLike(str):
        __slots__ = ()

    markup = MarkupLike("<b>\x1b</b>")
    assert escape_shown_value(markup) is markup
    assert escape_shown_value(7) == 7
    assert escape_shown_value("\x1b") == "\\u001b"


def test_names_that_a_model_wrote_are_recorded_with_their_escapes() -> None:
    function = {"name": "search\x1b[2J", "arguments": "{}"}
    message = message_from_chat(
        {
            "role": "assistant",
            "name": "desk\u202e",
            "content": "text \x1b stays",
            "tool_calls": [{"id": "call\n1", "type": "function", "function": function}],
        }
    )
    text, call = message.parts
    assert (text.text, message.name) == ("text \x1b stays", "desk\\u202e")
    assert (call.name, call.call_id) == ("search\\u001b[2J", "call\\u000a1")
