"""The key/value cache of the light decoder: running rows in front, finished sequences behind.

One array per layer, `[slots, kv_heads, time, head_dim]`. Slots `[0, max_rows)` are for the running
rows, always compact. The slots behind them keep the last finished sequences, so that a prompt that
begins like one of them copies the common prefix instead of computing it.
"""

import numpy as np
import numpy.typing as npt

from atdp.inference.worker.qwen3_weights import Qwen3Weights

_FIRST_CAPACITY = 128
"""Tokens per slot at first; doubles when a longer sequence comes, up to the model's context."""


class KeyValueCache:
    """Keys, values and tokens of every slot."""

    def __init__(self, weights: Qwen3Weights, *, max_rows: int) -> None:
        """Make room for `max_rows` running and as many finished sequences."""
        self._kv_heads, self._head_dim = weights.kv_heads, weights.head_dim
        self._layers, self._context = len(weights.layers), weights.context
        self._max_rows = max_rows
        self._slots = 2 * max_rows
        self._retired_next = 0
        self._allocate(min(_FIRST_CAPACITY, self._context))

    def _allocate(self, capacity: int) -> None:
        shape = (self._slots, self._kv_heads, capacity, self._head_dim)
        self._capacity = capacity
        self.keys = [np.zeros(shape, np.float32) for _ in range(self._layers)]
        self.values = [np.zeros(shape, np.float32) for _ in range(self._layers)]
        self.tokens = np.full((self._slots, capacity), -1, np.int32)
        """[slots, capacity]: the token ids whose keys are cached, -1 behind the last."""
        self.length = np.zeros(self._slots, np.int64)
        """[slots]: cached tokens."""

    def reserve(self, tokens: int) -> None:
        """Make room for sequences of `tokens`; the content does not change."""
        if tokens <= self._capacity:
            return
        keys, values, known, length = self.keys, self.values, self.tokens, self.length
        capacity = self._capacity
        self._allocate(min(self._context, max(tokens, 2 * capacity)))
        for layer in range(self._layers):
            self.keys[layer][:, :, :capacity] = keys[layer]
            self.values[layer][:, :, :capacity] = values[layer]
        self.tokens[:, :capacity] = known
        self.length[:] = length

    def clear(self, first: int, last: int | None = None) -> None:
        """Forget the content of the slots `[first, last)`; None: up to the end."""
        self.length[first:last] = 0
        self.tokens[first:last] = -1

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first `tokens` of a slot to another one."""
        for layer in range(self._layers):
            self.keys[layer][target, :, :tokens] = self.keys[layer][source, :, :tokens]
            self.values[layer][target, :, :tokens] = self.values[layer][source, :, :tokens]
        self.tokens[target, :tokens] = self.tokens[source, :tokens]
        self.tokens[target, tokens:] = -1
        self.length[target] = tokens

    def retire(self, row: int) -> None:
        """Keep a finished sequence behind the running rows, in place of the oldest one."""
        slot = self._max_rows + self._retired_next
        self._retired_next = (self._retired_next + 1) % (self._slots - self._max_rows)
        self.copy(row, slot, int(self.length[row]))

    def longest_prefix(self, tokens: npt.NDArray[np.int32], limit: int) -> tuple[int, int]:
        """Return the slot that shares the longest prefix, and its length (at most `limit`)."""
        if limit <= 0:
            return 0, 0
        same = np.logical_and.accumulate(self.tokens[:, :limit] == tokens[:limit], axis=1)
        lengths = same.sum(axis=1)
        best = int(lengths.argmax())
        return best, int(lengths[best])
