"""The layers of a transformer in NumPy, as `transformers.models.qwen3` computes them."""

import numpy as np

from atdp.inference.worker.decoder import Floats


def rms_norm(x: Floats, weight: Floats, eps: np.float32) -> Floats:
    """Return the RMS norm over the last axis, times `weight`."""
    variance = np.einsum("...i,...i->...", x, x) / x.dtype.type(x.shape[-1])
    normed: Floats = x * (1 / np.sqrt(variance + eps))[..., None] * weight
    return normed


def softmax(scores: Floats) -> Floats:
    """Return the softmax over the last axis."""
    weights: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    np.divide(weights, weights.sum(axis=-1, keepdims=True), out=weights)
    return weights


def rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Return `x` [n, heads, dim] with rotary positions; `cos` and `sin` are [n, 1, dim]."""
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return np.asarray(x * cos + turned * sin, np.float32)


def rotary_angles(base: float, head_dim: int, context: int) -> tuple[Floats, Floats]:
    """Return cosine and sine [context, head_dim] of the rotary angles."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / head_dim
    frequencies = (1.0 / base**exponents).astype(np.float32)
    angles = np.arange(context, dtype=np.float32)[:, None] * frequencies[None]
    both = np.concatenate([angles, angles], axis=-1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)
