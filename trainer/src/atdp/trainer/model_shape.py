"""The size of a new model. This module does not load torch."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """The size of a new Qwen3 model.

    The default has about 0.85 million weights with a vocabulary of 512 tokens. The names of the
    fields are part of the hash of the settings, which run names have stored.
    """

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    intermediate: int = 384
    context: int = 2048
    """Longest sequence in tokens, prompt and output together."""
