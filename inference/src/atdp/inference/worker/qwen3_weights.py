"""Configuration and weights of a Qwen3 model directory, in the layout of the light decoder."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from atdp.inference.errors import ModelError
from atdp.inference.worker.decoder import Floats

_DEFAULT_ROTARY_BASE = 10_000.0
"""The value of transformers for a configuration without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerWeights:
    """Weights of one block, transposed for `x @ w` and fused where they read the same input."""

    norm_in: Floats
    qkv: Floats
    norm_q: Floats
    norm_k: Floats
    out: Floats
    norm_mlp: Floats
    gate_up: Floats
    down: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Qwen3Weights:
    """A dense Qwen3 model in float32."""

    vocab_size: int
    context: int
    """Longest sequence in tokens."""
    heads: int
    kv_heads: int
    head_dim: int
    eps: np.float32
    """Added to the variance in every RMS norm."""
    rotary_base: float
    embed: Floats
    """[vocab, hidden]."""
    head: Floats
    """[hidden, vocab]: the language model head, which may be tied to `embed`."""
    norm: Floats
    layers: tuple[LayerWeights, ...]


def load_qwen3(model_dir: Path) -> Qwen3Weights:
    """Read a model directory.

    Raises:
        ModelError: it is not a dense Qwen3 model.
    """
    try:
        config = json.loads((model_dir / "config.json").read_text())
        weights = load_file(model_dir / "model.safetensors")
    except (OSError, ValueError, SafetensorError, TypeError) as error:
        raise ModelError(f"weights of {model_dir} cannot be read: {error}") from error
    if config.get("model_type") != "qwen3":
        raise ModelError(
            f"{model_dir} is a {config.get('model_type')} model; "
            "the light decoder serves only qwen3"
        )
    if config.get("attention_bias") or config.get("use_sliding_window"):
        raise ModelError(
            f"{model_dir} uses attention bias or sliding windows; "
            "serve it with --decoder transformers"
        )
    try:
        return _arranged(
            config, {name: w.astype(np.float32, copy=False) for name, w in weights.items()}
        )
    except KeyError as error:
        raise ModelError(f"{model_dir} lacks {error.args[0]}; publish it again") from error


def _arranged(
    config: dict[str, object], weights: dict[str, npt.NDArray[np.float32]]
) -> Qwen3Weights:
    """Arrange weights that are named as in transformers' state dict."""
    embed = weights["model.embed_tokens.weight"]
    return Qwen3Weights(
        vocab_size=_integer(config, "vocab_size"),
        context=_integer(config, "max_position_embeddings"),
        heads=_integer(config, "num_attention_heads"),
        kv_heads=_integer(config, "num_key_value_heads"),
        head_dim=_integer(config, "head_dim"),
        eps=np.float32(str(config["rms_norm_eps"])),
        rotary_base=_rotary_base(config),
        embed=embed,
        head=np.ascontiguousarray(weights.get("lm_head.weight", embed).T),
        norm=weights["model.norm.weight"],
        layers=tuple(_layer(weights, n) for n in range(_integer(config, "num_hidden_layers"))),
    )


def _layer(weights: dict[str, npt.NDArray[np.float32]], number: int) -> LayerWeights:
    def weight(name: str) -> Floats:
        return weights[f"model.layers.{number}.{name}.weight"]

    def fused(*names: str) -> Floats:
        return np.ascontiguousarray(np.concatenate([weight(name) for name in names]).T)

    return LayerWeights(
        norm_in=weight("input_layernorm"),
        qkv=fused("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        norm_q=weight("self_attn.q_norm"),
        norm_k=weight("self_attn.k_norm"),
        out=fused("self_attn.o_proj"),
        norm_mlp=weight("post_attention_layernorm"),
        gate_up=fused("mlp.gate_proj", "mlp.up_proj"),
        down=fused("mlp.down_proj"),
    )


def _integer(config: dict[str, object], key: str) -> int:
    value = config[key]
    if not isinstance(value, int):
        raise ModelError(f"config.json: {key} must be an integer, got {value!r}")
    return value


def _rotary_base(config: dict[str, object]) -> float:
    """Return the base of the rotary frequencies.

    transformers 5 nests it in `rope_parameters`; earlier versions have `rope_theta` at the top.
    """
    nested = config.get("rope_parameters")
    rope = nested if isinstance(nested, dict) else config.get("rope_scaling") or {}
    kind = rope.get("rope_type", "default") if isinstance(rope, dict) else "default"
    if kind != "default":
        raise ModelError(
            f"rotary scaling {kind!r} is not served by the light decoder; "
            "use --decoder transformers"
        )
    value = rope.get("rope_theta") if isinstance(rope, dict) else None
    if value is None:
        value = config.get("rope_theta", _DEFAULT_ROTARY_BASE)
    return float(str(value))
