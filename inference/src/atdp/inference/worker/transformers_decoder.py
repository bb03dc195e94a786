"""The general decoder: any causal LM that transformers loads, on any torch device.

The batch is one transformers key/value cache, padded on the left. New rows are read on their own
and joined to the running batch by padding the shorter cache; finished rows are removed by index.
The cache is copied whenever rows are added or removed; in exchange every architecture works. There
is no prefix cache.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as torch_functional

from atdp.inference.transformers_model import load_causal_lm
from atdp.inference.worker.decoder import Floats, Prefilled, PrefillRow

_LayerCache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer, [rows, kv_heads, time, head_dim] each."""


class TransformersDecoder:
    """Implements `atdp.inference.worker.decoder.Decoder`; see the module docstring."""

    def __init__(self, model: Any, *, device: str = "cpu") -> None:
        """Serve a transformers model, which is moved to `device`."""
        self._model = model.to(device).eval()
        self._device = torch.device(device)
        self.context = int(model.config.max_position_embeddings)
        self.vocab_size = int(model.config.vocab_size)
        self._cache: list[_LayerCache] = []
        self._mask = torch.zeros((0, 0), dtype=torch.long, device=self._device)

    @classmethod
    def load(cls, model_dir: Path, *, device: str) -> "TransformersDecoder":
        """Read a model directory from disk, never from a hub."""
        return cls(load_causal_lm(model_dir, dtype="auto"), device=device)

    def __len__(self) -> int:
        """Return the number of rows in the batch."""
        return int(self._mask.shape[0])

    def flush(self) -> None:
        """Do nothing, since nothing is kept beyond the running rows."""

    @torch.inference_mode()
    def prefill(self, rows: Sequence[PrefillRow]) -> list[Prefilled]:
        """Read new rows as a left-padded batch of their own, then join it to the running one."""
        width = max(len(row.tokens) for row in rows)
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, width - len(row.tokens) :] = torch.tensor(row.tokens)
            mask[number, width - len(row.tokens) :] = 1
        mask = mask.to(self._device)
        logits, cache = self._forward(ids, mask, None)
        self._join(cache, mask)
        results = []
        for number, row in enumerate(rows):
            first = (
                len(row.tokens) - 1
                if row.logits_from is None
                else min(row.logits_from, len(row.tokens) - 1)
            )
            results.append(
                Prefilled(logits=_host(logits[number, width - len(row.tokens) + first :]), cached=0)
            )
        return results

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> Floats:
        """Append one token to every row."""
        one = torch.ones((len(tokens), 1), dtype=torch.long, device=self._device)
        self._mask = torch.cat([self._mask, one], dim=1)
        logits, self._cache = self._forward(torch.tensor(tokens)[:, None], self._mask, self._cache)
        return _host(logits[:, -1])

    @torch.inference_mode()
    def remove(self, rows: Collection[int]) -> list[int]:
        """Remove rows, and the padding that no remaining row needs."""
        order = [row for row in range(len(self)) if row not in set(rows)]
        index = torch.tensor(order, dtype=torch.long, device=self._device)
        mask = self._mask.index_select(0, index)
        start = int(mask.argmax(dim=1).min()) if order else int(mask.shape[1])
        self._mask = mask[:, start:]
        self._cache = [
            (keys.index_select(0, index)[:, :, start:], values.index_select(0, index)[:, :, start:])
            for keys, values in self._cache
        ]
        return order

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, cache: list[_LayerCache] | None
    ) -> tuple[torch.Tensor, list[_LayerCache]]:
        from transformers.cache_utils import DynamicCache

        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        past = DynamicCache()
        for number, (keys, values) in enumerate(cache or []):
            past.update(keys, values, number)
        output = self._model(
            input_ids=ids.to(self._device),
            attention_mask=mask,
            position_ids=positions,
            past_key_values=past,
            use_cache=True,
        )
        return output.logits, [(layer.keys, layer.values) for layer in past.layers]

    def _join(self, cache: list[_LayerCache], mask: torch.Tensor) -> None:
        if not len(self):
            self._cache, self._mask = cache, mask
            return
        width = max(mask.shape[1], self._mask.shape[1])
        self._cache = [
            (
                torch.cat([_widen(keys, width), _widen(new_keys, width)]),
                torch.cat([_widen(values, width), _widen(new_values, width)]),
            )
            for (keys, values), (new_keys, new_values) in zip(self._cache, cache, strict=True)
        ]
        self._mask = torch.cat(
            [torch_functional.pad(part, (width - part.shape[1], 0)) for part in (self._mask, mask)]
        )


def _widen(cached: torch.Tensor, width: int) -> torch.Tensor:
    return torch_functional.pad(cached, (0, 0, width - cached.shape[2], 0))


def _host(logits: torch.Tensor) -> Floats:
    array: Floats = logits.float().cpu().numpy().astype(np.float32, copy=False)
    return array
