"""Qwen3 in NumPy: the decoder for small models.

A model below a few million weights spends its time in the overhead around the arithmetic, and its
memory in the framework: importing torch and transformers costs 770 MB per process, this module 40
MB. The architecture is that of `transformers.models.qwen3` (pre-norm, grouped-query attention with
per-head RMS norm on queries and keys, rotary positions, SwiGLU); tests hold the logits equal to
transformers' within 1e-4.

Layout: all prompts of one `prefill` are packed without padding; the cache is one array per layer,
`[slots, kv_heads, time, head_dim]`. Slots `[0, rows)` are the batch, always compact, so that a step
works on a plain slice. Slots behind `max_rows` keep finished sequences: a prompt that starts like
one of them (the next turn of the same conversation, another member of the same group) copies the
common prefix instead of computing it.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from atdp.inference.errors import ModelError
from atdp.inference.worker.decoder import Floats, Prefilled, PrefillRow

_FIRST_CAPACITY = 128
"""Tokens per slot at first; doubles when a longer sequence comes, up to the model's context."""


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """Weights of one block, transposed for `x @ w` and fused where they read the same input."""

    norm_in: Floats
    qkv: Floats
    norm_q: Floats
    norm_k: Floats
    out: Floats
    norm_mlp: Floats
    gate_up: Floats
    down: Floats


class Qwen3Decoder:
    """See the module docstring; implements `atdp.inference.worker.decoder.Decoder`."""

    def __init__(
        self,
        config: dict[str, object],
        weights: dict[str, npt.NDArray[np.float32]],
        *,
        max_rows: int,
    ) -> None:
        """Take over `weights` (named as in transformers' state dict)."""
        self.vocab_size = _number(config, "vocab_size")
        self.context = _number(config, "max_position_embeddings")
        self._heads = _number(config, "num_attention_heads")
        self._kv_heads = _number(config, "num_key_value_heads")
        self._head_dim = _number(config, "head_dim")
        self._eps = np.float32(str(config["rms_norm_eps"]))
        self._embed = weights["model.embed_tokens.weight"]
        head = weights.get("lm_head.weight", self._embed)
        self._head = np.ascontiguousarray(head.T)
        self._norm = weights["model.norm.weight"]
        self._layers = [_layer(weights, n) for n in range(_number(config, "num_hidden_layers"))]
        self._cos, self._sin = _rotary(_theta(config), self._head_dim, self.context)
        self._max_rows = max_rows
        self._slots = 2 * max_rows
        self._retired_next = 0
        self._rows = 0
        self._allocate(min(_FIRST_CAPACITY, self.context))

    @classmethod
    def load(cls, model_dir: Path, *, max_rows: int) -> "Qwen3Decoder":
        """Read a model directory. Raises ModelError when it is not a dense Qwen3 in float32."""
        try:
            config = json.loads((model_dir / "config.json").read_text())
            weights = load_file(model_dir / "model.safetensors")
        except (OSError, ValueError, SafetensorError, TypeError) as error:
            raise ModelError(f"weights of {model_dir} cannot be read: {error}") from error
        if config.get("model_type") != "qwen3":
            raise ModelError(
                f"{model_dir} is a {config.get('model_type')} model; the light decoder serves qwen3 only"
            )
        if config.get("attention_bias") or config.get("use_sliding_window"):
            raise ModelError(
                f"{model_dir} uses attention bias or sliding windows; serve it with --decoder transformers"
            )
        try:
            return cls(
                config,
                {name: w.astype(np.float32, copy=False) for name, w in weights.items()},
                max_rows=max_rows,
            )
        except KeyError as error:
            raise ModelError(f"{model_dir} lacks {error.args[0]}; publish it again") from error

    def __len__(self) -> int:
        """Rows in the batch."""
        return self._rows

    def flush(self) -> None:
        """Forget finished sequences."""
        self._length[self._rows :] = 0
        self._tokens[self._rows :] = -1

    def prefill(self, rows: Sequence[PrefillRow]) -> list[Prefilled]:
        """Append rows. Equal prompts in one call are computed once and copied."""
        if self._rows + len(rows) > self._max_rows:
            raise ValueError(f"{len(rows)} rows do not fit beside {self._rows} of {self._max_rows}")
        results: list[Prefilled | None] = [None] * len(rows)
        first_slot = self._rows
        self._reserve(max(len(row.tokens) for row in rows) + 1)
        fresh: dict[tuple[int, ...], int] = {}
        again = []
        for index, row in enumerate(rows):
            if row.logits_from is None and row.tokens in fresh:
                again.append(index)
            else:
                fresh[row.tokens] = index
        self._length[first_slot : first_slot + len(rows)] = 0
        self._tokens[first_slot : first_slot + len(rows)] = -1
        repeated = set(again)
        first_wave = [index for index in range(len(rows)) if index not in repeated]
        for wave in (first_wave, again):
            if wave:
                self._read(rows, wave, first_slot, results)
        self._rows += len(rows)
        return [result for result in results if result is not None]

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append one token to every row."""
        n = self._rows
        positions = self._length[:n].copy()
        self._reserve(int(positions.max()) + 1)
        everyone = np.arange(n)
        self._tokens[everyone, positions] = tokens
        self._length[:n] += 1
        horizon = int(positions.max()) + 1
        hidden = self._embed[np.asarray(tokens)]
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        beyond = np.arange(horizon)[None, :] > positions[:, None]
        masked = bool(beyond.any())
        bias = np.where(beyond, np.float32(-1e30), np.float32(0))[:, None, None, :]
        for number, layer in enumerate(self._layers):
            q, k, v = self._qkv(layer, hidden, cos, sin)
            keys, values = self._keys[number], self._values[number]
            keys[everyone, :, positions] = k
            values[everyone, :, positions] = v
            grouped = q.reshape(n, self._kv_heads, -1, self._head_dim)
            scores = grouped @ keys[:n, :, :horizon].swapaxes(-1, -2)
            if masked:
                scores += bias
            mixed = _softmax(scores) @ values[:n, :, :horizon]
            hidden = self._finish(layer, hidden, mixed.reshape(n, -1))
        return self._logits(hidden)

    def remove(self, rows: Collection[int]) -> list[int]:
        """Drop rows; the last ones move into the holes."""
        gone = set(rows)
        order = list(range(self._rows))
        for row in sorted(gone, reverse=True):
            self._retire(row)
            last = len(order) - 1
            if row != last:
                self._copy(last, row, int(self._length[last]))
                order[row] = order[last]
            self._length[last] = 0
            self._tokens[last] = -1
            order.pop()
        self._rows = len(order)
        return order

    # --- the cache ---

    def _allocate(self, capacity: int) -> None:
        shape = (self._slots, self._kv_heads, capacity, self._head_dim)
        self._capacity = capacity
        self._keys = [np.zeros(shape, np.float32) for _ in self._layers]
        self._values = [np.zeros(shape, np.float32) for _ in self._layers]
        self._tokens = np.full((self._slots, capacity), -1, np.int32)
        self._length = np.zeros(self._slots, np.int64)

    def _reserve(self, tokens: int) -> None:
        """Make room for sequences of `tokens`; finished sequences survive, the content does not change."""
        if tokens <= self._capacity:
            return
        old = (self._keys, self._values, self._tokens, self._length, self._capacity)
        self._allocate(min(self.context, max(tokens, 2 * self._capacity)))
        keys, values, known, length, capacity = old
        for layer in range(len(self._layers)):
            self._keys[layer][:, :, :capacity] = keys[layer]
            self._values[layer][:, :, :capacity] = values[layer]
        self._tokens[:, :capacity] = known
        self._length[:] = length

    def _copy(self, source: int, target: int, tokens: int) -> None:
        for layer in range(len(self._layers)):
            self._keys[layer][target, :, :tokens] = self._keys[layer][source, :, :tokens]
            self._values[layer][target, :, :tokens] = self._values[layer][source, :, :tokens]
        self._tokens[target, :tokens] = self._tokens[source, :tokens]
        self._tokens[target, tokens:] = -1
        self._length[target] = tokens

    def _retire(self, row: int) -> None:
        """Keep a finished sequence behind the batch, in place of the oldest one."""
        slot = self._max_rows + self._retired_next
        self._retired_next = (self._retired_next + 1) % (self._slots - self._max_rows)
        self._copy(row, slot, int(self._length[row]))

    def _longest_prefix(self, tokens: npt.NDArray[np.int32], limit: int) -> tuple[int, int]:
        """The slot that shares the longest prefix, and its length (at most `limit` tokens)."""
        if limit <= 0:
            return 0, 0
        same = np.logical_and.accumulate(self._tokens[:, :limit] == tokens[:limit], axis=1).sum(
            axis=1
        )
        best = int(same.argmax())
        return best, int(same[best])

    # --- the arithmetic ---

    def _read(
        self,
        rows: Sequence[PrefillRow],
        wave: Sequence[int],
        first_slot: int,
        results: list[Prefilled | None],
    ) -> None:
        """Run the prompts of one wave, packed: [all their uncached tokens, hidden]."""
        starts, ends, wanted = [], [], []
        packed: list[npt.NDArray[np.int32]] = []
        for index in wave:
            row, slot = rows[index], first_slot + index
            tokens = np.asarray(row.tokens, np.int32)
            limit = (
                len(tokens) - 1
                if row.logits_from is None
                else min(row.logits_from, len(tokens) - 1)
            )
            source, cached = self._longest_prefix(tokens, limit)
            if cached:
                self._copy(source, slot, cached)
            packed.append(tokens[cached:])
            starts.append(cached)
            ends.append(len(tokens))
            wanted.append(len(tokens) - 1 if row.logits_from is None else limit)
        hidden = self._embed[np.concatenate(packed)]
        positions = np.concatenate(
            [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        )
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        edges = np.cumsum([0, *(len(part) for part in packed)])
        for number, layer in enumerate(self._layers):
            q, k, v = self._qkv(layer, hidden, cos, sin)
            mixed = np.empty((len(hidden), self._heads * self._head_dim), np.float32)
            for index, start, end, left, right in zip(
                wave, starts, ends, edges, edges[1:], strict=False
            ):
                keys, values = (
                    self._keys[number][first_slot + index],
                    self._values[number][first_slot + index],
                )
                keys[:, start:end] = k[left:right].swapaxes(0, 1)
                values[:, start:end] = v[left:right].swapaxes(0, 1)
                mixed[left:right] = self._attend(
                    q[left:right], keys[:, :end], values[:, :end], start
                )
            hidden = self._finish(layer, hidden, mixed)
        for index, start, end, want, left in zip(wave, starts, ends, wanted, edges, strict=False):
            slot = first_slot + index
            # Only now: a prompt of the same wave must not find keys that are not computed yet.
            self._tokens[slot, :end] = rows[index].tokens
            self._length[slot] = end
            logits = self._logits(hidden[left + want - start : left + end - start])
            results[index] = Prefilled(logits=logits, cached=start)

    def _attend(self, q: Floats, keys: Floats, values: Floats, start: int) -> Floats:
        """Causal attention of one sequence's new tokens [t, heads, dim] over its keys [kv_heads, end, dim]."""
        t = len(q)
        grouped = q.reshape(t, self._kv_heads, -1, self._head_dim).transpose(1, 2, 0, 3)
        scores = grouped @ keys[:, None].swapaxes(-1, -2)
        if t > 1:
            future = np.arange(keys.shape[1])[None, :] > np.arange(start, start + t)[:, None]
            scores = np.where(future, np.float32(-1e30), scores)
        mixed: Floats = (_softmax(scores) @ values[:, None]).transpose(2, 0, 1, 3).reshape(t, -1)
        return mixed

    def _qkv(
        self, layer: _Layer, hidden: Floats, cos: Floats, sin: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Rotated, scaled queries [n, heads, dim], rotated keys and values [n, kv_heads, dim]."""
        fused = (_rms(hidden, layer.norm_in, self._eps) @ layer.qkv).reshape(
            len(hidden), -1, self._head_dim
        )
        q = _rms(fused[:, : self._heads], layer.norm_q, self._eps)
        k = _rms(fused[:, self._heads : self._heads + self._kv_heads], layer.norm_k, self._eps)
        scale = np.float32(self._head_dim**-0.5)
        return (
            _rotate(q, cos, sin) * scale,
            _rotate(k, cos, sin),
            fused[:, self._heads + self._kv_heads :],
        )

    def _finish(self, layer: _Layer, hidden: Floats, mixed: Floats) -> Floats:
        """Attention output and the feed-forward half of a block."""
        hidden = hidden + mixed @ layer.out
        gate, up = np.split(_rms(hidden, layer.norm_mlp, self._eps) @ layer.gate_up, 2, axis=-1)
        with np.errstate(over="ignore"):
            activated = gate / (1 + np.exp(-gate)) * up
        finished: Floats = hidden + activated @ layer.down
        return finished

    def _logits(self, hidden: Floats) -> Floats:
        logits: Floats = _rms(hidden, self._norm, self._eps) @ self._head
        return logits


def _rms(x: Floats, weight: Floats, eps: np.float32) -> Floats:
    variance = np.einsum("...i,...i->...", x, x) / x.dtype.type(x.shape[-1])
    normed: Floats = x * (1 / np.sqrt(variance + eps))[..., None] * weight
    return normed


def _softmax(scores: Floats) -> Floats:
    weights: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    np.divide(weights, weights.sum(axis=-1, keepdims=True), out=weights)
    return weights


def _rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return np.asarray(x * cos + turned * sin, np.float32)


def _rotary(theta: float, head_dim: int, context: int) -> tuple[Floats, Floats]:
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / head_dim
    frequencies = (1.0 / theta**exponents).astype(np.float32)
    angles = np.arange(context, dtype=np.float32)[:, None] * frequencies[None]
    both = np.concatenate([angles, angles], axis=-1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def _layer(weights: dict[str, npt.NDArray[np.float32]], number: int) -> _Layer:
    def weight(name: str) -> Floats:
        return weights[f"model.layers.{number}.{name}.weight"]

    def fused(*names: str) -> Floats:
        return np.ascontiguousarray(np.concatenate([weight(name) for name in names]).T)

    return _Layer(
        norm_in=weight("input_layernorm"),
        qkv=fused("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        norm_q=weight("self_attn.q_norm"),
        norm_k=weight("self_attn.k_norm"),
        out=fused("self_attn.o_proj"),
        norm_mlp=weight("post_attention_layernorm"),
        gate_up=fused("mlp.gate_proj", "mlp.up_proj"),
        down=fused("mlp.down_proj"),
    )


def _number(config: dict[str, object], key: str) -> int:
    value = config[key]
    if not isinstance(value, int):
        raise ModelError(f"config.json: {key} must be an integer, got {value!r}")
    return value


def _theta(config: dict[str, object]) -> float:
    """Rotary base; transformers 5 nests it in `rope_parameters`, earlier versions kept `rope_theta` at the top."""
    nested = config.get("rope_parameters")
    rope = nested if isinstance(nested, dict) else config.get("rope_scaling") or {}
    kind = rope.get("rope_type", "default") if isinstance(rope, dict) else "default"
    if kind != "default":
        raise ModelError(
            f"rotary scaling {kind!r} is not served by the light decoder; use --decoder transformers"
        )
    value = rope.get("rope_theta") if isinstance(rope, dict) else None
    return float(str(value if value is not None else config.get("rope_theta", 10_000.0)))
