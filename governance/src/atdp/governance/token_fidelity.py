"""The treatment of token ids after redaction, and the token fidelity of the event.

Token ids are the raw text in another coding, so they are decoded and scanned like text. Replacing
single tokens would change the meaning of the log-probabilities, so ids are kept or removed as a
whole:

* nothing detected → `exact`: everything is kept;
* something detected in the prompt only → `context_changed`: prompt ids are removed, output ids and
  log-probabilities are kept;
* something detected in the output, a log-probability that is not finite, or an unknown tokenizer →
  `dropped`: ids, log-probabilities and loss mask are removed. The same holds when the policy
  removes fields whose text model calls have read, because the prompt ids would still contain it;
* output ids whose text is not that of the message (`stated_text`) → `dropped`.

A prompt may refer to the tokens of an earlier generation (`prompt_prefix_event_id`), which were
scanned with that generation and are not seen here. A personal value must not continue across the
cut. Such a prompt is therefore kept only where its own ids begin with a control token; else it is
removed, as if something had been detected in it. A reference whose ids are removed is removed, too.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from atdp.governance.tokenizer_folder import Tokenizers

EXACT: Final = "exact"
CONTEXT_CHANGED: Final = "context_changed"
SPLICED: Final = "spliced"
DROPPED: Final = "dropped"
UNKNOWN: Final = "unknown"

IDS_DO_NOT_MATCH: Final = "ids_do_not_match_text"
"""The reason why ids were dropped that are not those of the message."""

_BEST_TO_WORST: Final = (EXACT, CONTEXT_CHANGED, SPLICED, DROPPED)
_OUTPUT_FIELDS: Final = ("output_token_ids", "output_logprobs", "loss_mask")
_SEAM_CHARS: Final = 200
"""Characters on either side of the border between prompt and output that are scanned together. It
is longer than the values that patterns find."""
_WORD_CHARS: Final = 200
"""Additional characters where the cut would split a word: half a number may look like another
value. A word longer than this is split all the same."""
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class TokenDecision:
    """The decision about the token ids of an event.

    `fidelity` is None for an event that holds no generation. `reason` states why ids were dropped,
    where the fidelity alone does not say so. `changed`: ids, or numbers beside them, were changed.
    """

    fidelity: str | None = None
    reason: str | None = None
    changed: bool = False


IsChanged: TypeAlias = Callable[[str], bool]
"""Tells whether governance would change a text."""
_PROMPT_FIELDS: Final = ("prompt_token_ids", "prompt_prefix_event_id", "prompt_prefix_tokens")


def govern_tokens(
    generation: Mapping[str, Any],
    *,
    claimed: str | None,
    message_changed: bool,
    is_changed: IsChanged,
    tokenizers: Tokenizers,
) -> tuple[dict[str, Any], str]:
    """Return the generation with the ids that may be kept, and its fidelity.

    `claimed`: the fidelity that the event had before; the result is never better.
    `message_changed`: something was replaced in the message that this generation wrote, or the
    policy drops text that the generation read. The fidelity `unknown` means that the producer gave
    no ids. The arrays match each other, which the contract demands.
    """
    prompt, output = generation.get("prompt_token_ids"), generation.get("output_token_ids")
    governed = dict(generation)
    if prompt is None and output is None:
        return governed, claimed if claimed in _BEST_TO_WORST and claimed != EXACT else UNKNOWN
    fidelity = _fidelity(
        prompt, output or (), generation.get("tokenizer_hash") or "", is_changed, tokenizers
    )
    if fidelity == EXACT and not _is_cut_at_control(generation, tokenizers):
        fidelity = CONTEXT_CHANGED
    if message_changed or not _all_finite(generation.get("output_logprobs")):
        fidelity = DROPPED
    if claimed in _BEST_TO_WORST:
        fidelity = max(fidelity, claimed, key=_BEST_TO_WORST.index)
    if fidelity in {SPLICED, DROPPED}:
        return without_tokens(generation), fidelity
    if fidelity != EXACT:
        governed |= dict.fromkeys(_PROMPT_FIELDS)
    return governed, fidelity


def without_tokens(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation without ids, log-probabilities and loss mask."""
    return {**generation, **dict.fromkeys((*_PROMPT_FIELDS, *_OUTPUT_FIELDS))}


def _is_cut_at_control(generation: Mapping[str, Any], tokenizers: Tokenizers) -> bool:
    """Return whether no value can continue from an earlier generation into this prompt."""
    if generation.get("prompt_prefix_event_id") is None:
        return True
    prompt = generation["prompt_token_ids"]
    return bool(prompt) and tokenizers.is_control(generation["tokenizer_hash"], prompt[0])


def _fidelity(
    prompt: Sequence[int] | None,
    output: Sequence[int],
    tokenizer_hash: str,
    is_changed: IsChanged,
    tokenizers: Tokenizers,
) -> str:
    written = tokenizers.readings(tokenizer_hash, output)
    if written is None or any(map(is_changed, written)):
        return DROPPED
    if prompt is None:
        return CONTEXT_CHANGED
    read = tokenizers.readings(tokenizer_hash, prompt)
    if read is None:
        return DROPPED
    if any(map(is_changed, read)):
        return CONTEXT_CHANGED
    # A value may begin in the prompt and end in the output.
    seams = (_end(before) + _start(after) for before, after in zip(read, written, strict=True))
    return DROPPED if any(map(is_changed, seams)) else EXACT


def _all_finite(log_probabilities: Sequence[float] | None) -> bool:
    return all(map(math.isfinite, log_probabilities or ()))


def _end(text: str) -> str:
    cut = len(text) - _SEAM_CHARS
    if cut <= 0:
        return text
    before_cut = text[max(0, cut - _WORD_CHARS) : cut]
    spaces = [space.end() for space in _SPACE.finditer(before_cut)]
    return before_cut[spaces[-1] if spaces else 0 :] + text[cut:]


def _start(text: str) -> str:
    behind_cut = text[_SEAM_CHARS : _SEAM_CHARS + _WORD_CHARS]
    space = _SPACE.search(behind_cut)
    return text[:_SEAM_CHARS] + (behind_cut if space is None else behind_cut[: space.start()])
