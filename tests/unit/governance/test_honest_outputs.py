"""Whatever a model writes, the ids and the message that our engine makes of them agree."""

import hashlib
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from atdp.governance.stated_text import states_output
from atdp.governance.tokenizer_folder import TokenizerFolder
from atdp.inference import train_tokenizer
from atdp.inference.chat_template import parse_tool_calls
from atdp.schemas import message_from_chat

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("lookup", "calc")]
PIECES = [
    '<tool_call>\n{"name": "lookup", "arguments": {"item": "rope é \\u00e9"}}\n</tool_call>',
    '<tool_call>{"name": "calc", "arguments": {"a": 29.00, "b": [1, {"c": null}]}}</tool_call>',
    '<tool_call>{"arguments": "{\\"item\\": 1}", "name": "lookup"}</tool_call>',
    '<tool_call>{"name": "lookup"}</tool_call>',
    '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
    "<tool_call>{broken</tool_call>",
    "the rope costs 7, 中文 and 😀\n",
    "  ",
    "<|im_end|>",
    "<|im_start|>",
    "lookup calc arguments",
]


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut off and random"])
def test_ids_of_our_engine_agree_with_its_message(tmp_path: Path, cut: bool) -> None:
    tokenizer = train_tokenizer([*PIECES, *PIECES], 400)
    content = tokenizer.to_str().encode()
    name = hashlib.sha256(content).hexdigest()
    (tmp_path / name).mkdir()
    (tmp_path / name / "tokenizer.json").write_bytes(content)
    folder = TokenizerFolder(tmp_path)
    chance = random.Random(3)
    calls = 0
    for _ in range(300):
        written = "".join(chance.choices(PIECES, k=chance.randint(0, 4)))
        ids: list[int] = tokenizer.encode(written, add_special_tokens=False).ids
        if cut:
            ids = ids[: chance.randint(0, len(ids))]
            for _ in range(chance.randint(0, 3)):
                ids.insert(chance.randint(0, len(ids)), chance.randrange(400))
        chat = answer(tokenizer.decode(ids, skip_special_tokens=True))
        message: dict[str, Any] = asdict(message_from_chat(chat))
        calls += "tool_calls" in chat
        generation = {"output_token_ids": ids, "tokenizer_hash": name, "sampling": None}
        assert states_output(message, generation, folder), (ids, chat)
    assert calls > 10


def answer(text: str) -> dict[str, Any]:
    """Return the message that the engine makes of a text."""
    parsed = parse_tool_calls(text, TOOLS)
    if not parsed.tool_calls:
        return {"role": "assistant", "content": text}
    calls = json.loads(json.dumps(parsed.tool_calls))
    return {"role": "assistant", "content": parsed.content, "tool_calls": calls}
