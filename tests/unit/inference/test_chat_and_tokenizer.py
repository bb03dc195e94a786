"""Tokenizer, chat template and tool calls: prefix stability, and agreement with transformers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.inference.chat_template import ChatTemplate, default_template, parse_tool_calls
from atdp.inference.errors import RequestError
from atdp.inference.tokenizer import TURN_END, train_tokenizer
from atdp.inference.tokenizer_identity import register_tokenizer
from atdp.trainer.model import save_tokenizer
from atdp.trainer.testing import ANSWER, QUESTION, TOOLS

TEMPLATE = ChatTemplate(default_template(), eos_token=TURN_END)
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    *QUESTION,
    ANSWER,
    {"role": "tool", "tool_call_id": "c1", "content": "15"},
    {"role": "assistant", "content": "105"},
]
TOKENIZER = train_tokenizer([TEMPLATE.render(TALK, TOOLS)] * 5, 400)
TEXT = st.text(max_size=20)
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, TEXT),
        st.builds(lambda text: {"role": "assistant", "content": text}, TEXT),
        st.builds(lambda text: {"role": "tool", "content": text}, TEXT),
        st.just(ANSWER),
    ),
    min_size=1,
    max_size=6,
)


@given(MESSAGES, st.booleans())
def test_the_tokens_of_a_prompt_are_a_prefix_of_the_tokens_of_the_finished_turn(
    messages: list[dict[str, Any]], with_tools: bool
) -> None:
    tools = TOOLS if with_tools else None
    prompt = TOKENIZER.encode(TEMPLATE.render(messages, tools, add_generation_prompt=True)).ids
    turn = TOKENIZER.encode(
        TEMPLATE.render([*messages, {"role": "assistant", "content": "done"}], tools)
    ).ids
    assert turn[: len(prompt)] == prompt


@given(TEXT)
def test_text_survives_encoding_and_decoding(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids, skip_special_tokens=False) == text


def test_every_digit_is_its_own_token_and_frequent_phrases_are_one() -> None:
    pieces = TOKENIZER.encode('{"name": "lookup", "arguments": {"item": "rope"}}\n4095').tokens
    assert pieces[-4:] == ["4", "0", "9", "5"]
    assert len(pieces) == 5


def test_transformers_renders_and_tokenises_the_same(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    save_tokenizer(TOKENIZER, tmp_path, context=128)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for messages, tools in ((TALK, TOOLS), (QUESTION, None), (TALK[:2], TOOLS)):
        text = TEMPLATE.render(messages, tools, add_generation_prompt=True)
        assert (
            theirs.apply_chat_template(
                messages, tools=tools, add_generation_prompt=True, tokenize=False
            )
            == text
        )
        assert theirs(text, add_special_tokens=False).input_ids == TOKENIZER.encode(text).ids
    assert theirs.eos_token == TURN_END


def test_a_rendered_tool_call_parses_back_to_itself() -> None:
    text = TEMPLATE.render([ANSWER]).removeprefix("<|im_start|>assistant\n").removesuffix(TURN_END)
    parsed = parse_tool_calls(text, TOOLS)
    assert parsed.content is None
    assert parsed.tool_calls[0]["function"] == ANSWER["tool_calls"][0]["function"]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n{broken\n</tool_call>",
        '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>',
        "<tool_call>\n[1]\n</tool_call>",
        '<tool_call>\n{"name": "lookup"',
        "no call at all",
    ],
)
def test_what_is_not_a_call_stays_text(text: str) -> None:
    assert parse_tool_calls(text, TOOLS) == parse_tool_calls(text, [])
    assert parse_tool_calls(text, TOOLS).content == text


def test_content_in_parts_is_joined_and_pictures_are_refused() -> None:
    parts = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "7 "}, {"type": "text", "text": "rope?"}],
        }
    ]
    assert TEMPLATE.render(parts) == TEMPLATE.render(QUESTION)
    with pytest.raises(RequestError, match="Only text parts"):
        TEMPLATE.render([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])


def test_a_registered_tokenizer_is_found_by_its_hash(tmp_path: Path) -> None:
    save_tokenizer(TOKENIZER, tmp_path / "model", context=128)
    source = tmp_path / "model" / "tokenizer.json"
    digest = register_tokenizer(tmp_path / "known", source)
    assert (tmp_path / "known" / digest / "tokenizer.json").read_bytes() == source.read_bytes()
    assert register_tokenizer(tmp_path / "known", source) == digest
