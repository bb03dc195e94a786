"""Qwen3 in NumPy: the light decoder, for small models.

A model below a few million weights spends its time in the overhead around the arithmetic, and its
memory in the framework: importing torch and transformers costs 770 MB per process, this module 40
MB. The architecture is that of `transformers.models.qwen3` (pre-norm, grouped-query attention with
per-head RMS norm on queries and keys, rotary positions, SwiGLU); tests hold the logits equal to
transformers' within 1e-4.

All prompts of one `prefill` are packed without padding. The running rows are the first slots of the
cache (see kv_cache.py), so a step works on a plain slice of it. A prompt that begins like a
finished sequence (the next turn of the same conversation, another member of the same group) does
not compute the common prefix again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from atdp.inference.worker.decoder import Floats, Prefilled, PrefillRow
from atdp.inference.worker.kv_cache import KeyValueCache
from atdp.inference.worker.numpy_layers import rms_norm, rotary_angles, rotate, softmax
from atdp.inference.worker.qwen3_weights import LayerWeights, Qwen3Weights, load_qwen3

_MASKED = np.float32(-1e30)
"""Score of a position that must not be attended to; its softmax weight is 0 in float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _PackedPrompt:
    """The part of one prompt that has to be computed, in a wave of packed prompts."""

    index: int
    """Number of the row in its `prefill` call."""
    slot: int
    tokens: npt.NDArray[np.int32]
    """[end - start] the tokens that are not cached."""
    start: int
    """Cached tokens."""
    end: int
    """Tokens of the prompt."""
    logits_from: int
    """First position whose logits are wanted."""


class Qwen3Decoder:
    """Implements `atdp.inference.worker.decoder.Decoder`; see the module docstring."""

    def __init__(self, weights: Qwen3Weights, *, max_rows: int) -> None:
        """Serve `weights`, with at most `max_rows` rows in the batch."""
        self.vocab_size = weights.vocab_size
        self.context = weights.context
        self._weights = weights
        self._cos, self._sin = rotary_angles(weights.rotary_base, weights.head_dim, weights.context)
        self._max_rows = max_rows
        self._rows = 0
        self._cache = KeyValueCache(weights, max_rows=max_rows)

    @classmethod
    def load(cls, model_dir: Path, *, max_rows: int) -> "Qwen3Decoder":
        """Read a model directory.

        Raises:
            ModelError: it is not a dense Qwen3 model.
        """
        return cls(load_qwen3(model_dir), max_rows=max_rows)

    def __len__(self) -> int:
        """Return the number of rows in the batch."""
        return self._rows

    def flush(self) -> None:
        """Forget finished sequences."""
        self._cache.clear(self._rows)

    def prefill(self, rows: Sequence[PrefillRow]) -> list[Prefilled]:
        """Append rows. Equal prompts in one call are computed once and copied."""
        if self._rows + len(rows) > self._max_rows:
            raise ValueError(f"{len(rows)} rows do not fit beside {self._rows} of {self._max_rows}")
        first_slot = self._rows
        self._cache.reserve(max(len(row.tokens) for row in rows) + 1)
        computed: set[tuple[int, ...]] = set()
        first_wave, repeated = [], []
        for index, row in enumerate(rows):
            if row.logits_from is None and row.tokens in computed:
                repeated.append(index)
            else:
                computed.add(row.tokens)
                first_wave.append(index)
        self._cache.clear(first_slot, first_slot + len(rows))
        results: dict[int, Prefilled] = {}
        for wave in (first_wave, repeated):
            if wave:
                prompts = [self._packed(rows[index], index, first_slot + index) for index in wave]
                results |= self._read(prompts)
                # Only now: prompts of the same wave must not find keys that are not computed yet.
                for prompt in prompts:
                    self._cache.tokens[prompt.slot, : prompt.end] = rows[prompt.index].tokens
                    self._cache.length[prompt.slot] = prompt.end
        self._rows += len(rows)
        return [results[index] for index in range(len(rows))]

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append one token to every row."""
        n, cache = self._rows, self._cache
        positions = cache.length[:n].copy()
        horizon = int(positions.max()) + 1
        cache.reserve(horizon)
        every_row = np.arange(n)
        cache.tokens[every_row, positions] = tokens
        cache.length[:n] += 1
        hidden = self._weights.embed[np.asarray(tokens)]
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        beyond = np.arange(horizon)[None, :] > positions[:, None]
        masked = bool(beyond.any())
        bias = np.where(beyond, _MASKED, np.float32(0))[:, None, None, :]
        for number, layer in enumerate(self._weights.layers):
            q, k, v = self._qkv(layer, hidden, cos, sin)
            keys, values = cache.keys[number], cache.values[number]
            keys[every_row, :, positions] = k
            values[every_row, :, positions] = v
            grouped = q.reshape(n, self._weights.kv_heads, -1, self._weights.head_dim)
            scores = grouped @ keys[:n, :, :horizon].swapaxes(-1, -2)
            if masked:
                scores += bias
            mixed = softmax(scores) @ values[:n, :, :horizon]
            hidden = self._finish_block(layer, hidden, mixed.reshape(n, -1))
        return self._logits(hidden)

    def remove(self, rows: Collection[int]) -> list[int]:
        """Remove rows; the last rows move to their places."""
        order = list(range(self._rows))
        for row in sorted(set(rows), reverse=True):
            self._cache.retire(row)
            last = len(order) - 1
            if row != last:
                self._cache.copy(last, row, int(self._cache.length[last]))
                order[row] = order[last]
            self._cache.clear(last, last + 1)
            order.pop()
        self._rows = len(order)
        return order

    def _packed(self, row: PrefillRow, index: int, slot: int) -> _PackedPrompt:
        """Copy the longest cached prefix of a prompt and return the rest of it."""
        tokens = np.asarray(row.tokens, np.int32)
        last = len(tokens) - 1
        # The logits that are wanted have to be computed, so a prefix must end before them.
        logits_from = last if row.logits_from is None else min(row.logits_from, last)
        source, cached = self._cache.longest_prefix(tokens, logits_from)
        if cached:
            self._cache.copy(source, slot, cached)
        return _PackedPrompt(
            index=index,
            slot=slot,
            tokens=tokens[cached:],
            start=cached,
            end=len(tokens),
            logits_from=logits_from,
        )

    def _read(self, prompts: Sequence[_PackedPrompt]) -> dict[int, Prefilled]:
        """Compute the prompts of one wave, packed as [all their uncached tokens, hidden]."""
        hidden = self._weights.embed[np.concatenate([prompt.tokens for prompt in prompts])]
        positions = np.concatenate([np.arange(p.start, p.end) for p in prompts])
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        edges = np.cumsum([0, *(len(prompt.tokens) for prompt in prompts)])
        width = self._weights.heads * self._weights.head_dim
        for number, layer in enumerate(self._weights.layers):
            q, k, v = self._qkv(layer, hidden, cos, sin)
            mixed = np.empty((len(hidden), width), np.float32)
            for prompt, left, right in zip(prompts, edges, edges[1:], strict=False):
                keys = self._cache.keys[number][prompt.slot]
                values = self._cache.values[number][prompt.slot]
                keys[:, prompt.start : prompt.end] = k[left:right].swapaxes(0, 1)
                values[:, prompt.start : prompt.end] = v[left:right].swapaxes(0, 1)
                mixed[left:right] = self._attend(
                    q[left:right], keys[:, : prompt.end], values[:, : prompt.end], prompt.start
                )
            hidden = self._finish_block(layer, hidden, mixed)
        results = {}
        for prompt, left in zip(prompts, edges, strict=False):
            wanted = hidden[left + prompt.logits_from - prompt.start : left + len(prompt.tokens)]
            results[prompt.index] = Prefilled(logits=self._logits(wanted), cached=prompt.start)
        return results

    def _attend(self, q: Floats, keys: Floats, values: Floats, start: int) -> Floats:
        """Return the causal attention of one sequence's new tokens over all its keys.

        `q` [t, heads, dim], `keys` and `values` [kv_heads, end, dim]; returns [t, heads * dim].
        """
        t = len(q)
        grouped = q.reshape(t, self._weights.kv_heads, -1, self._weights.head_dim)
        scores = grouped.transpose(1, 2, 0, 3) @ keys[:, None].swapaxes(-1, -2)
        if t > 1:
            future = np.arange(keys.shape[1])[None, :] > np.arange(start, start + t)[:, None]
            scores = np.where(future, _MASKED, scores)
        mixed: Floats = (softmax(scores) @ values[:, None]).transpose(2, 0, 1, 3).reshape(t, -1)
        return mixed

    def _qkv(
        self, layer: LayerWeights, hidden: Floats, cos: Floats, sin: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return rotated, scaled queries [n, heads, dim], rotated keys and values.

        Keys and values are [n, kv_heads, dim].
        """
        heads, kv_heads, eps = self._weights.heads, self._weights.kv_heads, self._weights.eps
        head_dim = self._weights.head_dim
        fused = (rms_norm(hidden, layer.norm_in, eps) @ layer.qkv).reshape(
            len(hidden), -1, head_dim
        )
        q = rms_norm(fused[:, :heads], layer.norm_q, eps)
        k = rms_norm(fused[:, heads : heads + kv_heads], layer.norm_k, eps)
        scale = np.float32(head_dim**-0.5)
        return rotate(q, cos, sin) * scale, rotate(k, cos, sin), fused[:, heads + kv_heads :]

    def _finish_block(self, layer: LayerWeights, hidden: Floats, mixed: Floats) -> Floats:
        """Add the attention's output and the feed-forward half of a block."""
        hidden = hidden + mixed @ layer.out
        normed = rms_norm(hidden, layer.norm_mlp, self._weights.eps)
        gate, up = np.split(normed @ layer.gate_up, 2, axis=-1)
        with np.errstate(over="ignore"):
            activated = gate / (1 + np.exp(-gate)) * up
        finished: Floats = hidden + activated @ layer.down
        return finished

    def _logits(self, hidden: Floats) -> Floats:
        logits: Floats = (
            rms_norm(hidden, self._weights.norm, self._weights.eps) @ self._weights.head
        )
        return logits
