"""Behaviour log-probabilities of tokens that follow replaced ones.

Governance replaces personal values in prompts and outputs. What stands behind a replaced token was
written by the model after another token, so its logged log-probability is *stale*: it belongs to a
context that no longer exists. Tokens of a replaced value, and one on either side, carry no loss at
all (governance sets their loss mask to 0). For the others there are three rules:

- `recompute` (default): the log-probability of the token in the governed text, under the weights
  that acted. They are read from the registry. The ratio to the trained policy is then one between
  two policies in the same context, and starts at 1 as it does without redaction. It is not an
  importance weight: the tokens were drawn in the raw context.
- `ratio-one`: the trained policy itself, so the ratio is 1. Nothing is read, and nothing bounds how
  far a step moves these tokens.
- `skip`: trajectories with such tokens are set aside.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from atdp.trainer.linearize import Row
from atdp.trainer.logprob import token_logprobs
from atdp.trainer.model import CausalLM
from atdp.trainer.packing import pack
from atdp.trainer.stale_rules import StaleRule
from atdp.trainer.trajectory import Turn

_HELD_MODELS = 2
"""Models in memory besides the trained one. Data of a step are of a few neighbouring versions."""


@dataclass(slots=True)
class StaleLogprobs:
    """Gives rows log-probabilities for their stale tokens, by one rule."""

    rule: StaleRule
    load: Callable[[str], CausalLM]
    """Returns the weights of a version."""
    _models: OrderedDict[str, CausalLM] = field(default_factory=OrderedDict)

    def refreshed(self, row: Row, turns: Sequence[Turn]) -> Row:
        """Return the row with other log-probabilities at its stale tokens.

        With `ratio-one` they are NaN, for which a step takes those of the trained policy.
        """
        stale = stale_loss_tokens(row)
        if not stale.any():
            return row
        logprobs = row.logprobs.copy()
        if self.rule == "ratio-one":
            logprobs[stale] = np.nan
        else:
            for version, tokens in self._by_version(row, stale, turns):
                logprobs[tokens] = row_logprobs(self._model(version), row, tokens)
        return replace(row, logprobs=logprobs)

    def _by_version(
        self, row: Row, stale: npt.NDArray[np.bool_], turns: Sequence[Turn]
    ) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Yield each version that wrote stale tokens of a row, with a mask of them."""
        numbers = np.zeros(len(row), np.int32) if row.turns is None else row.turns
        wrote: dict[str, list[int]] = {}
        for number in np.unique(numbers[stale]):
            (version,) = turns[number].versions
            wrote.setdefault(version, []).append(int(number))
        for version, of_version in wrote.items():
            yield version, stale & np.isin(numbers, of_version)

    def _model(self, version: str) -> CausalLM:
        if version not in self._models:
            self._models[version] = self.load(version)
            if len(self._models) > _HELD_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(version)
        return self._models[version]


def stale_loss_tokens(row: Row) -> npt.NDArray[np.bool_]:
    """Return which tokens of a row carry loss and have a stale log-probability."""
    return np.zeros(len(row), bool) if row.stale is None else row.trained & row.stale


def row_logprobs(
    model: CausalLM, row: Row, tokens: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Return the log-probabilities of the marked tokens of a row, at its temperature."""
    (batch,) = pack([replace(row, trained=tokens)], [0.0], budget=len(row))
    with torch.no_grad():
        return token_logprobs(model, batch).logp.float().numpy()


def change_of_stale(before: Sequence[Row], after: Sequence[Row]) -> Mapping[str, float | int]:
    """Return the number of stale loss tokens, and how far their log-probabilities moved (nats)."""
    moved = [
        np.abs(new.logprobs - old.logprobs)[stale_loss_tokens(old)]
        for old, new in zip(before, after, strict=True)
    ]
    all_moved = np.concatenate([*moved, np.zeros(0, np.float32)])
    known = all_moved[np.isfinite(all_moved)]
    return {
        "stale_tokens": len(all_moved),
        "stale_change": float(known.mean()) if len(known) else 0.0,
    }
