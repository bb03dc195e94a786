"""The choice of the decoder for a model directory."""

import json
from pathlib import Path
from typing import Literal

from atdp.inference.errors import ModelError
from atdp.inference.worker.decoder import Decoder
from atdp.inference.worker.qwen3 import Qwen3Decoder

DecoderKind = Literal["auto", "light", "transformers"]

_LIGHT_LIMIT_BYTES = 400_000_000
"""Above this size of the weights file torch is faster than the light decoder."""


def load_decoder(
    model_dir: Path, *, kind: DecoderKind = "auto", max_rows: int = 64, device: str = "cpu"
) -> Decoder:
    """Load the decoder of the given kind; `auto` takes the fastest one for the model.

    Raises:
        ModelError: the model cannot be served; the message holds the reason.
    """
    config_file, weights_file = model_dir / "config.json", model_dir / "model.safetensors"
    if not config_file.is_file():
        raise ModelError(f"{model_dir} is not a model directory: config.json is missing")
    try:
        config = json.loads(config_file.read_text())
    except json.JSONDecodeError as error:
        raise ModelError(f"{config_file} is not JSON: {error}") from error
    if kind == "auto":
        small = weights_file.is_file() and weights_file.stat().st_size <= _LIGHT_LIMIT_BYTES
        kind = (
            "light"
            if config.get("model_type") == "qwen3" and small and device == "cpu"
            else "transformers"
        )
    if kind == "light":
        return Qwen3Decoder.load(model_dir, max_rows=max_rows)
    from atdp.inference.worker.transformers_decoder import TransformersDecoder

    return TransformersDecoder.load(model_dir, device=device)
