"""The treatment of token ids after redaction, and the token fidelity of the event.

Token ids are the raw text in another coding, so they are decoded and governed like text. Where
governance replaces something, the tokens of it are replaced by those of the governed text, and all
others keep their ids (`token_splice`):

* nothing detected → `exact`: everything is kept;
* something detected in the prompt only → `context_changed`: the prompt is spliced. The output ids
  and their log-probabilities are kept, but the model wrote them after another prompt;
* something detected in the output → `spliced`: the output is spliced, too. Tokens of a replaced
  value, and one token on either side of it, get loss mask 0 and the log-probability 0;
* `dropped`: ids, log-probabilities and loss mask are removed. That happens where ids cannot be
  spliced exactly; where a value begins in the prompt and ends in the output; where the governed
  output is not the governed message; where a log-probability is not finite; where the tokenizer is
  unknown; and where the policy removes fields whose text model calls have read.

Output ids whose text is not that of the message are dropped as well. Tokens of text behind a tool
call that the message does not state get loss mask 0 (`stated_text`).

A prompt may refer to the tokens of an earlier generation (`prompt_prefix_event_id`), which were
governed with that generation and are not seen here. A personal value must not continue across the
cut. Such a prompt is therefore kept only where its own ids begin with a control token; else it is
removed, and so is a prompt that cannot be spliced. The fidelity is then `context_changed`. A
reference whose ids are removed is removed, too.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from atdp.governance.stated_text import stated_tokens
from atdp.governance.token_splice import Splice, SplicedIds, spliced_ids
from atdp.governance.tokenizer_folder import Tokenizers

EXACT: Final = "exact"
CONTEXT_CHANGED: Final = "context_changed"
SPLICED: Final = "spliced"
DROPPED: Final = "dropped"
UNKNOWN: Final = "unknown"

IDS_DO_NOT_MATCH: Final = "ids_do_not_match_text"
"""The reason why ids were dropped that are not those of the message."""

BEST_TO_WORST: Final = (EXACT, CONTEXT_CHANGED, SPLICED, DROPPED)
_PROMPT_FIELDS: Final = ("prompt_token_ids", "prompt_prefix_event_id", "prompt_prefix_tokens")
_OUTPUT_FIELDS: Final = ("output_token_ids", "output_logprobs", "loss_mask")
_SEAM_CHARS: Final = 200
"""Characters on either side of the border between prompt and output that are scanned together. It
is longer than the values that patterns find."""
_WORD_CHARS: Final = 200
"""Additional characters where the cut would split a word: half a number may look like another
value. A word longer than this is split all the same."""
_SPACE = re.compile(r"\s")

GovernText: TypeAlias = Callable[[str], str | None]
"""Returns a text as governance writes it; None where it removes the text."""


@dataclass(frozen=True, slots=True)
class TokenDecision:
    """The decision about the token ids of an event.

    `fidelity` is None for an event that holds no generation. `reason` states why ids were dropped,
    where the fidelity alone does not say so. `changed`: ids, or numbers beside them, were changed.
    """

    fidelity: str | None = None
    reason: str | None = None
    changed: bool = False


def govern_tokens(
    generation: Mapping[str, Any],
    *,
    claimed: str | None,
    message: Mapping[str, Any] | None,
    govern: GovernText,
    tokenizers: Tokenizers,
) -> tuple[dict[str, Any], str]:
    """Return the generation with the ids that may be kept, and its fidelity.

    `claimed`: the fidelity that the event had before; the result is never better. `message`: the
    message that this generation wrote, as governed. The fidelity `unknown` means that the producer
    gave no ids. The arrays match each other, which the contract demands.
    """
    prompt, output = generation.get("prompt_token_ids"), generation.get("output_token_ids")
    if not has_tokens(generation):
        known = claimed if claimed in BEST_TO_WORST and claimed != EXACT else UNKNOWN
        return dict(generation), known
    if claimed == DROPPED or not _all_finite(generation.get("output_logprobs")):
        return without_tokens(generation), DROPPED
    name = generation.get("tokenizer_hash") or ""
    read, written = tokenizers.readings(name, prompt or ()), tokenizers.readings(name, output or ())
    if read is None or written is None or _crosses(read, written, govern):
        return without_tokens(generation), DROPPED
    new_output = _governed_ids(output or (), written, govern, name, tokenizers)
    if new_output is None:
        return without_tokens(generation), DROPPED
    new_prompt = _governed_ids(prompt or (), read, govern, name, tokenizers)
    if prompt is None or not _is_cut_at_control(generation, tokenizers):
        new_prompt = None
    splices = (new_prompt.splices if new_prompt else ()) + new_output.splices
    # Splices count the producer's tokens, and those of an earlier pass are counted already.
    if splices and generation.get("token_splices"):
        return without_tokens(generation), DROPPED
    fidelity = EXACT
    if new_prompt is None or new_prompt.splices:
        fidelity = CONTEXT_CHANGED
    if new_output.splices:
        fidelity = SPLICED
    governed = _spliced(generation, new_prompt, new_output)
    stated = stated_tokens(message, governed, tokenizers)
    if output is not None and stated is None:
        return without_tokens(generation), DROPPED
    if claimed in BEST_TO_WORST:
        fidelity = max(fidelity, claimed, key=BEST_TO_WORST.index)
    return _without_loss_from(stated, governed), fidelity


def has_tokens(generation: Mapping[str, Any]) -> bool:
    """Return whether the producer gave ids of the prompt or of the output."""
    return (generation["prompt_token_ids"], generation["output_token_ids"]) != (None, None)


def without_tokens(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation without ids, log-probabilities and loss mask."""
    removed = dict.fromkeys((*_PROMPT_FIELDS, *_OUTPUT_FIELDS))
    return {**generation, **removed, "token_splices": []}


def _is_cut_at_control(generation: Mapping[str, Any], tokenizers: Tokenizers) -> bool:
    """Return whether no value can continue from an earlier generation into this prompt."""
    if generation.get("prompt_prefix_event_id") is None:
        return True
    prompt = generation["prompt_token_ids"]
    return bool(prompt) and tokenizers.is_control(generation["tokenizer_hash"], prompt[0])


def _governed_ids(
    ids: Sequence[int],
    readings: Sequence[str],
    govern: GovernText,
    tokenizer: str,
    tokenizers: Tokenizers,
) -> SplicedIds | None:
    """Return the ids of the governed text; None where there are no exact ones."""
    governed = [govern(reading) for reading in readings]
    if governed == list(readings):
        return SplicedIds(tuple(ids))
    if len(governed) != 1 or governed[0] is None:
        return None
    return spliced_ids(ids, governed[0], tokenizer, tokenizers)


def _crosses(read: Sequence[str], written: Sequence[str], govern: GovernText) -> bool:
    """Return whether a value may begin in the prompt and end in the output."""
    for before, after in zip(read, written, strict=True):
        end, start = _end(before), _start(after)
        together, apart = govern(end + start), (govern(end), govern(start))
        if together is None or None in apart or together != f"{apart[0]}{apart[1]}":
            return True
    return False


def _spliced(
    generation: Mapping[str, Any], prompt: SplicedIds | None, output: SplicedIds
) -> dict[str, Any]:
    """Return the generation with other ids, and all that is counted in tokens adapted to them.

    `prompt` is None where its ids are removed.
    """
    governed = dict(generation)
    if prompt is None:
        governed |= dict.fromkeys(_PROMPT_FIELDS)
    splices = () if prompt is None else prompt.splices
    if not splices and not output.splices:
        return governed
    length = len(generation["prompt_token_ids"] or ())
    shifted = [
        Splice(each.start + length, each.end + length, each.tokens) for each in output.splices
    ]
    governed["token_splices"] = [
        {"start": each.start, "end": each.end, "tokens": each.tokens}
        for each in (*splices, *shifted)
    ]
    # The experts of single tokens cannot be counted any more.
    governed["routed_experts"] = None
    if splices and prompt is not None:
        governed["prompt_token_ids"] = list(prompt.ids)
    if output.splices:
        governed |= _spliced_output(generation, output)
    return governed


def _spliced_output(generation: Mapping[str, Any], output: SplicedIds) -> dict[str, Any]:
    """Return the fields that belong to the output, for its new ids."""
    count = len(generation["output_token_ids"])
    logprobs, mask = list(generation["output_logprobs"] or ()), list(generation["loss_mask"] or ())
    mask = mask or [1] * count
    for each in reversed(output.splices):
        # The value may begin or end within a neighbouring token.
        for neighbour in {max(each.start - 1, 0), min(each.end, count - 1)}:
            mask[neighbour] = 0
            logprobs[neighbour : neighbour + 1] = [0.0] * bool(logprobs)
        mask[each.start : each.end] = [0] * each.tokens
        if logprobs:
            logprobs[each.start : each.end] = [0.0] * each.tokens
    spans = [
        {**span, "start": output.place(span["start"]), "end": output.place(span["end"])}
        for span in generation["policy_versions"] or ()
    ]
    return {
        "output_token_ids": list(output.ids),
        "output_logprobs": logprobs or generation["output_logprobs"],
        "loss_mask": mask,
        "policy_versions": [span for span in spans if span["start"] < span["end"]],
    }


def _without_loss_from(stated: int | None, generation: dict[str, Any]) -> dict[str, Any]:
    """Return the generation with loss mask 0 for the output tokens from number `stated` on."""
    count = len(generation["output_token_ids"] or ())
    if stated is None or stated >= count:
        return generation
    mask = generation["loss_mask"] or [1] * count
    return {**generation, "loss_mask": [*mask[:stated], *[0] * (count - stated)]}


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
