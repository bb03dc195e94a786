"""Batches of rows without padding.

Rows are sorted by length and laid end to end until a token budget is full. Positions restart at
every row. The language model head is applied only where a loss token follows (20-40 % of the tokens
in agent logs), because on small models the head is a large part of the arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from atdp.trainer.linearize import Row

TokenAdvantages = float | npt.NDArray[np.floating]
"""The advantage of a row: one for all of its tokens, or an array with one per token."""

DEFAULT_BUDGET = 4096
"""Tokens per packed batch. It bounds the memory (about 0.3 GB for a model of a million weights);
the result does not depend on it beyond rounding."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PackedBatch:
    """Rows laid end to end: T tokens, N of them loss tokens."""

    tokens: torch.Tensor
    """[1, T] int64."""
    positions: torch.Tensor
    """[1, T] int64, restarting at 0 in every row."""
    boundaries: tuple[int, ...]
    """Cumulative row lengths, from 0 to T."""
    predict_at: torch.Tensor
    """[N] int64: index in T of the token *before* each loss token."""
    targets: torch.Tensor
    """[N] int64: the loss tokens."""
    behaviour: torch.Tensor
    """[N] float32: logged log-probabilities of the loss tokens."""
    advantage: torch.Tensor
    """[N] float32."""
    temperature: torch.Tensor
    """[N] float32."""


def pack(
    rows: Sequence[Row], advantages: Sequence[TokenAdvantages], *, budget: int = DEFAULT_BUDGET
) -> list[PackedBatch]:
    """Pack rows with their advantages; a row longer than `budget` has a batch of its own.

    The result is deterministic.
    """
    order = sorted(
        (n for n in range(len(rows)) if rows[n].loss_tokens), key=lambda n: (len(rows[n]), n)
    )
    batches: list[PackedBatch] = []
    current: list[int] = []
    filled = 0
    for number in order:
        if current and filled + len(rows[number]) > budget:
            batches.append(_batch([rows[n] for n in current], [advantages[n] for n in current]))
            current, filled = [], 0
        current.append(number)
        filled += len(rows[number])
    if current:
        batches.append(_batch([rows[n] for n in current], [advantages[n] for n in current]))
    return batches


def _batch(rows: Sequence[Row], advantages: Sequence[TokenAdvantages]) -> PackedBatch:
    lengths = [len(row) for row in rows]
    trained = np.concatenate([row.trained for row in rows])
    tokens = np.concatenate([row.tokens for row in rows])
    (marks,) = np.nonzero(trained)
    spread = np.concatenate(
        [
            np.broadcast_to(np.asarray(advantage, np.float32), (length,))
            for advantage, length in zip(advantages, lengths, strict=True)
        ]
    )
    temperatures = np.repeat(np.array([row.temperature for row in rows], np.float32), lengths)
    logprobs = np.concatenate([row.logprobs for row in rows])
    return PackedBatch(
        tokens=torch.from_numpy(tokens)[None],
        positions=torch.from_numpy(np.concatenate([np.arange(n) for n in lengths]))[None],
        boundaries=tuple(int(edge) for edge in np.cumsum([0, *lengths])),
        predict_at=torch.from_numpy(marks - 1),
        targets=torch.from_numpy(tokens[marks]),
        behaviour=torch.from_numpy(logprobs[marks]),
        advantage=torch.from_numpy(spread[marks]),
        temperature=torch.from_numpy(temperatures[marks]),
    )
