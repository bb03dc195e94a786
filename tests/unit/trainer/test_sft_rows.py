"""The loss mask of a logged conversation."""

from typing import Any

from atdp.inference import TURN_END, ChatTemplate, default_template, train_tokenizer
from atdp.trainer.sft_rows import conversation_row
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


def test_loss_is_on_what_the_assistant_wrote_with_its_turn_end_and_nothing_else() -> None:
    row = conversation_row(TALK, TOOLS, TEMPLATE, TOKENIZER)
    trained = TOKENIZER.decode(
        [int(t) for t, m in zip(row.tokens, row.trained, strict=True) if m],
        skip_special_tokens=False,
    )
    call = '{"name": "lookup", "arguments": {"item": "rope"}}'
    assert trained == f"<tool_call>\n{call}\n</tool_call><|im_end|>105<|im_end|>"
    assert TOKENIZER.decode(row.tokens.tolist(), skip_special_tokens=False) == TEMPLATE.render(
        TALK, TOOLS
    )
