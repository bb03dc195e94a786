"""Training rows from recorded model calls.

An agent calls its model once per turn, and each prompt usually begins with the previous prompt and
output. Where it does so *token by token* (a clean turn), the turns share one row: the new part of
the prompt is context, only outputs are trained. Where it does not (the client rewrote history, or
text was tokenised differently the second time), a new row begins (a fork). Nothing is tokenised
again, and every output token is trained exactly once: tokens that a forked row repeats are context
in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atdp.trainer.trajectory import Turn


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Row:
    """One sequence to train on; all arrays have the length of `tokens`."""

    tokens: npt.NDArray[np.int64]
    trained: npt.NDArray[np.bool_]
    """Tokens that carry loss. The first token never does, since no token precedes it."""
    logprobs: npt.NDArray[np.float32]
    """Behaviour log-probabilities where trained, 0 elsewhere."""
    turns: npt.NDArray[np.int32] | None = None
    """Number of the turn, from 0, that wrote each token or read it first; None: not of turns."""
    temperature: float = 1.0
    stale: npt.NDArray[np.bool_] | None = None
    """Tokens of outputs that stand behind a token which governance has replaced; None: none."""

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)

    @property
    def loss_tokens(self) -> int:
        """The number of trained tokens."""
        return int(self.trained.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Linearized:
    """The rows of one trajectory, and how its turns were merged."""

    rows: tuple[Row, ...]
    clean: int
    """Number of turns that extended a row."""
    forks: int
    """Number of turns that began a further row."""


def linearize(turns: Sequence[Turn]) -> Linearized:
    """Merge turns into rows where the tokens of one are an exact prefix of the next."""
    rows: list[Row] = []
    tokens: list[int] = []
    trained: list[bool] = []
    logprobs: list[float] = []
    numbers: list[int] = []
    stale: list[bool] = []
    temperature = 1.0
    clean = forks = 0
    for number, turn in enumerate(turns):
        extends = (
            number > 0
            and turn.temperature == temperature
            and len(turn.prompt_ids) >= len(tokens)
            and list(turn.prompt_ids[: len(tokens)]) == tokens
        )
        if extends:
            clean += 1
        elif number > 0:
            forks += 1
            rows.append(_row(tokens, trained, logprobs, numbers, stale, temperature))
            tokens, trained, logprobs, numbers, stale = [], [], [], [], []
        context = turn.prompt_ids[len(tokens) :]
        mask = turn.loss_mask or (1,) * len(turn.output_ids)
        tokens += [*context, *turn.output_ids]
        trained += [False] * len(context) + [bool(m) for m in mask]
        logprobs += [0.0] * len(context) + [
            p if m else 0.0 for p, m in zip(turn.logprobs, mask, strict=True)
        ]
        numbers += [number] * (len(tokens) - len(numbers))
        begins = len(mask) if turn.stale_from is None else turn.stale_from
        stale += [False] * len(context) + [at >= begins for at in range(len(mask))]
        temperature = turn.temperature
    if tokens:
        rows.append(_row(tokens, trained, logprobs, numbers, stale, temperature))
    return Linearized(rows=tuple(rows), clean=clean, forks=forks)


def _row(
    tokens: list[int],
    trained: list[bool],
    logprobs: list[float],
    numbers: list[int],
    stale: list[bool],
    temperature: float,
) -> Row:
    marks = np.array(trained, bool)
    marks[0] = False
    return Row(
        tokens=np.array(tokens, np.int64),
        trained=marks,
        logprobs=np.array(logprobs, np.float32),
        turns=np.array(numbers, np.int32),
        stale=np.array(stale, bool),
        temperature=temperature,
    )
