"""The port of the engine towards a model: a changing batch of sequences and their next logits.

A decoder owns the weights and a key/value cache of *rows*. Rows are appended by `prefill`, advance
together by `step`, and leave by `remove`. Two decoders exist:
`atdp.inference.worker.qwen3.Qwen3Decoder` (NumPy, Qwen3 only, a fifth of the memory and several
times the speed for small models) and
`atdp.inference.worker.transformers_decoder.TransformersDecoder` (every causal LM of transformers,
any device). One behaviour suite runs against both.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefillRow:
    """A sequence that joins the batch."""

    tokens: tuple[int, ...]
    """Prompt token ids, at least one."""
    logits_from: int | None = None
    """First position whose logits are wanted; None means only the last one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefilled:
    """The result of reading the prompt of one row."""

    logits: Floats
    """[positions, vocab] float32: the logits after each wanted position, the last position's at the
    end."""
    cached: int
    """Prompt tokens whose keys and values came from the prefix cache."""


class Decoder(Protocol):
    """A batch of sequences under one set of weights. Not thread-safe: one engine thread owns it."""

    context: int
    """Longest sequence in tokens."""
    vocab_size: int

    def __len__(self) -> int:
        """Return the number of rows in the batch."""
        ...

    def prefill(self, rows: Sequence[PrefillRow]) -> list[Prefilled]:
        """Append `rows` at the end of the batch and read their prompts."""
        ...

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append one token to every row, in batch order; return the next logits [rows, vocab]."""
        ...

    def remove(self, rows: Collection[int]) -> list[int]:
        """Remove rows; return the old index of each remaining row in the new order."""
        ...

    def flush(self) -> None:
        """Forget cached prefixes."""
        ...
