"""Causal attention over packed rows, registered with transformers.

Rows of different lengths are laid end to end in one sequence of shape [1, tokens]; each token
attends only to earlier tokens of its own row. On a CPU the fastest exact form is one
scaled-dot-product call per run of rows of equal length (FlexAttention has no backward there,
`varlen_attn` no CPU kernel); packing sorts rows by length, so runs are long. The row boundaries
are passed in the model's keyword arguments as `boundaries`: cumulative lengths `(0, n_1, n_1 + n_2,
…)`, plain integers. Without them the whole sequence is one row.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

PACKED_ATTENTION = "atdp_packed"
"""The name of this attention in transformers."""


def packed_attention(  # noqa: PLR0913 - the signature is transformers'
    module: Any,  # noqa: ARG001 - the signature is transformers'
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001 - boundaries replace the mask
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    boundaries: Sequence[int] | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention within rows.

    `query` [1, heads, tokens, dim], `key` and `value` [1, kv_heads, tokens, dim]; returns [1,
    tokens, heads, dim]. `boundaries` are the cumulative lengths as plain integers.
    """
    runs = [*_runs(boundaries or (0, query.shape[2]))]
    sizes = [rows * length for rows, length in runs]
    # One split, whose gradient is one concatenation; a slice's gradient is a whole packed tensor.
    parts = (torch.split_with_sizes(packed[0], sizes, dim=1) for packed in (query, key, value))
    pieces = []
    for (rows, length), *part in zip(runs, *parts, strict=True):
        of_rows = [each.unflatten(1, (rows, length)).transpose(0, 1) for each in part]
        mixed = scaled_dot_product_attention(
            query=of_rows[0],
            key=of_rows[1],
            value=of_rows[2],
            dropout_p=dropout,
            is_causal=True,
            scale=scaling,
            enable_gqa=key.shape[1] != query.shape[1],
        )
        pieces.append(mixed.transpose(1, 2).flatten(0, 1))
    return torch.cat(pieces)[None], None


def _runs(edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return runs of neighbouring rows of equal length, as (rows, length).

    Each run is one call with a batch of rows.
    """
    lengths = (end - start for start, end in itertools.pairwise(edges))
    for length, group in itertools.groupby(lengths):
        yield sum(1 for _ in group), length


def _no_mask(*_: Any, **__: Any) -> None:
    """Return no mask, since packed attention needs none."""


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
AttentionMaskInterface.register(PACKED_ATTENTION, _no_mask)
