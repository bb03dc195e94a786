"""Token ids after redaction: what may stay, and what the event may still train.

Token ids are the raw text in another coding, so they are decoded and scanned like text. Token by
token nothing can be replaced without changing what the log-probabilities mean, so ids stay as they
are or go:

* nothing found → `exact`: all stay;
* found in the prompt only → `context_changed`: prompt ids go, output ids and log-probabilities
  stay;
* found in the output, a log-probability that is no finite number, or the tokenizer is unknown →
  `dropped`: ids, log-probabilities and loss mask go. Also when the policy removes fields whose text
  model calls have read: the ids would still spell it out.

A tokenizer is known by the SHA-256 of its `tokenizer.json`, and used only if the file still has
that hash.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from atdp.governance.errors import Refusal

EXACT = "exact"
CONTEXT_CHANGED = "context_changed"
DROPPED = "dropped"
UNKNOWN = "unknown"

_ORDER = (EXACT, CONTEXT_CHANGED, "spliced", DROPPED)
_OUTPUT_FIELDS = ("output_token_ids", "output_logprobs", "loss_mask")

Changes = Callable[[str], bool]
"""Whether governing a text would change it."""

Readings = Callable[[str, Sequence[int]], Sequence[str] | None]


class Tokenizers(Protocol):
    """Decoders by tokenizer hash."""

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """The texts that the ids may be read as, special tokens included; `None`: unknown tokenizer, or an id that is not one of its own."""
        ...


@dataclass
class TokenizerFolder:
    """The tokenizers of a home: `<hash>/tokenizer.json`.

    A file whose content has another hash is not used.
    """

    folder: Path
    _known: dict[str, tokenizers.Tokenizer] = field(default_factory=dict)

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """See `Tokenizers`."""
        tokenizer = self._known.get(tokenizer_hash) or self._load(tokenizer_hash)
        if tokenizer is None:
            return None
        tokens = {one: tokenizer.id_to_token(one) if one >= 0 else None for one in set(ids)}
        # The library skips ids that it does not know; a skipped id would be text that nobody
        # scanned.
        if None in tokens.values():
            return None
        decoded = str(tokenizer.decode(list(ids), skip_special_tokens=False))
        if tokenizer.decoder is None:
            # Without a decoder the library puts spaces between tokens, which would hide every value
            # that has more than one.
            return decoded, "".join(str(tokens[one]) for one in ids)
        return (decoded,)

    def _load(self, tokenizer_hash: str) -> tokenizers.Tokenizer | None:
        if not (len(tokenizer_hash) == 64 and tokenizer_hash.isalnum()):
            return None
        try:
            content = (self.folder / tokenizer_hash / "tokenizer.json").read_bytes()
        except OSError:
            # Not remembered: it may be registered while the gate runs.
            return None
        if hashlib.sha256(content).hexdigest() != tokenizer_hash:
            return None
        self._known[tokenizer_hash] = tokenizers.Tokenizer.from_buffer(content)
        return self._known[tokenizer_hash]


def govern_tokens(
    generation: Mapping[str, Any],
    *,
    claimed: str | None,
    message_changed: bool,
    changes: Changes,
    readings: Readings,
) -> tuple[dict[str, Any], str]:
    """The generation with the ids that may stay, and its fidelity.

    `claimed` is the fidelity that the event came with: it can get worse here, never better.
    `message_changed`: something was replaced in the message that this generation wrote, or the
    policy drops text that it read. `unknown` means that the producer gave no ids.

    Raises:
        Refusal: the arrays do not fit together.
    """
    prompt, output = generation.get("prompt_token_ids"), generation.get("output_token_ids")
    _check_shape(generation)
    governed = dict(generation)
    if prompt is None and output is None:
        return governed, claimed if claimed in _ORDER and claimed != EXACT else UNKNOWN
    fidelity = _judge(
        prompt, output or (), generation.get("tokenizer_hash") or "", changes, readings
    )
    if message_changed or not all(map(math.isfinite, generation.get("output_logprobs") or ())):
        fidelity = DROPPED
    if claimed in _ORDER:
        fidelity = max(fidelity, claimed, key=_ORDER.index)
    if fidelity in {"spliced", DROPPED}:
        return without_tokens(generation), fidelity
    if fidelity != EXACT:
        governed["prompt_token_ids"] = None
    return governed, fidelity


def without_tokens(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The generation without ids and what belongs to them."""
    return {**generation, "prompt_token_ids": None, **dict.fromkeys(_OUTPUT_FIELDS)}


def _judge(
    prompt: Sequence[int] | None,
    output: Sequence[int],
    tokenizer_hash: str,
    changes: Changes,
    readings: Readings,
) -> str:
    written = readings(tokenizer_hash, output)
    if written is None or any(map(changes, written)):
        return DROPPED
    if prompt is None:
        return CONTEXT_CHANGED
    read = readings(tokenizer_hash, prompt)
    if read is None:
        return DROPPED
    if any(map(changes, read)):
        return CONTEXT_CHANGED
    # A value may begin in the prompt and end in the output.
    seams = (_end(before) + _start(after) for before, after in zip(read, written, strict=True))
    return DROPPED if any(map(changes, seams)) else EXACT


_SEAM_CHARS = 200
"""Characters on either side of the border between prompt and output that are scanned together:
longer than the values that patterns find."""
_WORD_CHARS = 200
"""So much more, where the cut would fall into a word: half a number may look like another thing. A
longer word is cut all the same."""
_SPACE = re.compile(r"\s")


def _end(text: str) -> str:
    at = len(text) - _SEAM_CHARS
    if at <= 0:
        return text
    longer = text[max(0, at - _WORD_CHARS) : at]
    spaces = [space.end() for space in _SPACE.finditer(longer)]
    return longer[spaces[-1] if spaces else 0 :] + text[at:]


def _start(text: str) -> str:
    longer = text[_SEAM_CHARS : _SEAM_CHARS + _WORD_CHARS]
    space = _SPACE.search(longer)
    return text[:_SEAM_CHARS] + (longer if space is None else longer[: space.start()])


def _check_shape(generation: Mapping[str, Any]) -> None:
    output = generation.get("output_token_ids")
    for name in ("output_logprobs", "loss_mask"):
        values = generation.get(name)
        if values is None:
            continue
        if output is None:
            raise Refusal("bad_generation", f"{name} without output_token_ids")
        if len(values) != len(output):
            raise Refusal("bad_generation", f"{name} and output_token_ids differ in length")
