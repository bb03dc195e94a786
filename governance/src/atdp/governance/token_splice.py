"""Token ids of a governed text, with as many of the producer's ids as possible.

A text that is tokenised again has other ids, and log-probabilities belong to ids. So only the
tokens of a replaced value are written anew. All others keep their ids, their places in the text
being known from the text of each token. The result decodes to exactly the governed text; where that
cannot be had, for example where a tokenizer writes a space of its own, there is no result.

A splice says which tokens were replaced by how many. Readers need it, because later generations
refer to tokens of earlier ones by their number (`atdp.schemas.WholePrompts`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from atdp.governance.tokenizer_folder import Tokenizers

_GRAM: Final = 8
"""Equal characters that end a difference."""
_REACH: Final = 4_000
"""Longest value or replacement whose end is looked for; behind a longer one, all tokens are
replaced."""
_CHUNK: Final = 512


@dataclass(frozen=True, slots=True)
class Splice:
    """Tokens `start` (inclusive) to `end` (exclusive) were replaced by `tokens` others."""

    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SplicedIds:
    """Ids of a governed text; the splices count the ids that there were before."""

    ids: tuple[int, ...]
    splices: tuple[Splice, ...] = ()

    def place(self, token: int) -> int:
        """Return the place of a token; a replaced one has the place behind its replacement."""
        moved = token
        for splice in self.splices:
            if splice.start >= token:
                break
            moved += splice.tokens - (min(splice.end, token) - splice.start)
        return moved


def spliced_ids(
    ids: Sequence[int], governed: str, tokenizer_hash: str, tokenizers: Tokenizers
) -> SplicedIds | None:
    """Return ids that decode to `governed`; None where no exact ones can be made."""
    pieces = tokenizers.pieces(tokenizer_hash, ids)
    if not pieces:
        return None
    made: list[int] = []
    splices: list[Splice] = []
    kept = 0
    for start, end, text in _replaced_tokens(pieces, governed):
        written = tokenizers.encode(tokenizer_hash, text)
        # No value continues across a control token, so one among the replaced is a mistake.
        special = (*ids[start:end], *(written or ()))
        if written is None or any(tokenizers.is_control(tokenizer_hash, each) for each in special):
            return None
        made += (*ids[kept:start], *written)
        splices.append(Splice(start, end, len(written)))
        kept = end
    made += ids[kept:]
    if tokenizers.readings(tokenizer_hash, made) != (governed,):
        return None
    return SplicedIds(tuple(made), tuple(splices))


def _replaced_tokens(pieces: Sequence[str], governed: str) -> list[tuple[int, int, str]]:
    """Return runs of tokens whose text differs: first, last exclusive, text in their place."""
    raw = "".join(pieces)
    edges = [0]
    for piece in pieces:
        edges.append(edges[-1] + len(piece))
    runs: list[tuple[int, int, int, int]] = []
    token = 0
    for start, end, new_start, new_end in differences(raw, governed):
        while token + 1 < len(edges) and edges[token + 1] <= start:
            token += 1
        first = token
        # A token without text is the beginning of the character that the next one ends.
        while first and edges[first] == edges[first - 1]:
            first -= 1
        if first and edges[first] == start == end:
            first -= 1
        last = first + 1
        while last < len(pieces) and edges[last] < end:
            last += 1
        new = new_start - (start - edges[first]), new_end + (edges[last] - end)
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], last, runs[-1][2], new[1])
        else:
            runs.append((first, last, *new))
    return [(first, last, governed[start:end]) for first, last, start, end in runs]


def differences(old: str, new: str) -> Iterable[tuple[int, int, int, int]]:
    """Yield where two texts differ: start and end in the old, start and end in the new one.

    Everything else is equal and in the same order. Linear in the length of the texts.
    """
    tail = _common_end(old, new)
    old_end, new_end = len(old) - tail, len(new) - tail
    at, new_at = 0, 0
    while True:
        same = _common_start(old[at:old_end], new[new_at:new_end])
        at, new_at = at + same, new_at + same
        if at == old_end and new_at == new_end:
            return
        skipped, written = _next_equal(old[at:old_end], new[new_at:new_end])
        yield at, at + skipped, new_at, new_at + written
        at, new_at = at + skipped, new_at + written


def _next_equal(old: str, new: str) -> tuple[int, int]:
    """Return the lengths of the beginnings after which both texts go on equally."""
    places: dict[str, int] = {}
    for at in range(min(len(new) - _GRAM + 1, _REACH)):
        places.setdefault(new[at : at + _GRAM], at)
    best = len(old), len(new)
    for at in range(min(len(old) - _GRAM + 1, _REACH)):
        if at >= sum(best):
            break
        found = places.get(old[at : at + _GRAM])
        if found is not None and at + found < sum(best):
            best = at, found
    return best


def _common_start(old: str, new: str) -> int:
    at, longest = 0, min(len(old), len(new))
    while at < longest and old[at : at + _CHUNK] == new[at : at + _CHUNK]:
        at += _CHUNK
    at = min(at, longest)
    while at < longest and old[at] == new[at]:
        at += 1
    return at


def _common_end(old: str, new: str) -> int:
    return _common_start(old[::-1], new[::-1])
