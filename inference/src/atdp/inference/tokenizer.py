r"""Byte-level BPE for small models, trained on logged conversations.

Three rules make the token ids fit for logged multi-turn training:

- every digit is a token of its own, so numbers of any length are written with ten symbols;
- no token spans a line break. The chat template starts every message on a new line,
  therefore the tokens of a prompt that ends in `assistant\n` are a prefix of the tokens of the
  finished turn (*prefix stability*), and turns merge into one training row without being tokenised
  again;
- inside a line tokens may span words: frequent phrases such as the opening of a tool call become
  one token, since a model with two thousand positions and less than a million weights has little
  room for longer sequences.
"""

import json
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
TOOL_CALL_START = "<tool_call>"
TOOL_CALL_END = "</tool_call>"

SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)
"""Control tokens; decoded text does not contain them."""
TEXT_TOKENS = (TOOL_CALL_START, TOOL_CALL_END)
"""Single tokens that decoded text contains, because the tool-call parser reads them."""

SMALLEST_VOCABULARY = 256 + len(SPECIAL_TOKENS) + len(TEXT_TOKENS)


def train_tokenizer(texts: Iterable[str], vocab_size: int = 512) -> Tokenizer:
    """Train a tokenizer on rendered conversations; control tokens in them are boundaries.

    `vocab_size` counts all tokens, at least 261 (256 bytes and the five control tokens). The result
    depends on the texts and how often each occurs, not on their order.
    """
    if vocab_size < SMALLEST_VOCABULARY:
        raise ValueError(
            f"vocab_size {vocab_size} is below {SMALLEST_VOCABULARY} "
            "(256 bytes and the control tokens)"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("\n"), "merged_with_previous"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[
            AddedToken(text, normalized=False) for text in SPECIAL_TOKENS + TEXT_TOKENS
        ],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_pieces(texts), trainer)
    # The trainer marks all special tokens as control tokens; those of TEXT_TOKENS are text.
    state = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["content"] in SPECIAL_TOKENS
    return Tokenizer.from_str(json.dumps(state))


def _pieces(texts: Iterable[str]) -> Iterable[str]:
    """Split texts at control tokens, so that no merge is learnt across one."""
    boundaries = SPECIAL_TOKENS + TEXT_TOKENS
    for text in texts:
        pieces = [text]
        for boundary in boundaries:
            pieces = [part for piece in pieces for part in piece.split(boundary)]
        yield from (piece for piece in pieces if piece)
