"""The treatment of token ids after redaction, and the token fidelity of the event.

Token ids are the raw text in another coding, so they are decoded and scanned like text. Replacing
single tokens would change the meaning of the log-probabilities, so ids are kept or removed as a
whole:

* nothing detected → `exact`: everything is kept;
* something detected in the prompt only → `context_changed`: prompt ids are removed, output ids and
  log-probabilities are kept;
* something detected in the output, a log-probability that is not finite, or an unknown tokenizer →
  `dropped`: ids, log-probabilities and loss mask are removed. The same holds when the policy
  removes fields whose text model calls have read, because the prompt ids would still contain it.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

EXACT: Final = "exact"
CONTEXT_CHANGED: Final = "context_changed"
SPLICED: Final = "spliced"
DROPPED: Final = "dropped"
UNKNOWN: Final = "unknown"

_BEST_TO_WORST: Final = (EXACT, CONTEXT_CHANGED, SPLICED, DROPPED)
_OUTPUT_FIELDS: Final = ("output_token_ids", "output_logprobs", "loss_mask")
_SEAM_CHARS: Final = 200
"""Characters on either side of the border between prompt and output that are scanned together. It
is longer than the values that patterns find."""
_WORD_CHARS: Final = 200
"""Additional characters where the cut would split a word: half a number may look like another
value. A word longer than this is split all the same."""
_SPACE = re.compile(r"\s")

IsChanged: TypeAlias = Callable[[str], bool]
"""Tells whether governance would change a text."""
Readings: TypeAlias = Callable[[str, Sequence[int]], Sequence[str] | None]
"""The texts that ids may stand for, by tokenizer hash; see `Tokenizers.readings`."""


def govern_tokens(
    generation: Mapping[str, Any],
    *,
    claimed: str | None,
    message_changed: bool,
    is_changed: IsChanged,
    readings: Readings,
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
        prompt, output or (), generation.get("tokenizer_hash") or "", is_changed, readings
    )
    if message_changed or not _all_finite(generation.get("output_logprobs")):
        fidelity = DROPPED
    if claimed in _BEST_TO_WORST:
        fidelity = max(fidelity, claimed, key=_BEST_TO_WORST.index)
    if fidelity in {SPLICED, DROPPED}:
        return without_tokens(generation), fidelity
    if fidelity != EXACT:
        governed["prompt_token_ids"] = None
    return governed, fidelity


def without_tokens(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation without ids, log-probabilities and loss mask."""
    return {**generation, "prompt_token_ids": None, **dict.fromkeys(_OUTPUT_FIELDS)}


def _fidelity(
    prompt: Sequence[int] | None,
    output: Sequence[int],
    tokenizer_hash: str,
    is_changed: IsChanged,
    readings: Readings,
) -> str:
    written = readings(tokenizer_hash, output)
    if written is None or any(map(is_changed, written)):
        return DROPPED
    if prompt is None:
        return CONTEXT_CHANGED
    read = readings(tokenizer_hash, prompt)
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
