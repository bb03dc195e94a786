"""Causal language models of transformers, loaded from model directories."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atdp.inference.errors import ModelError


def load_causal_lm(path: Path, **options: Any) -> Any:
    """Load a model from disk, never from the network, and draw no progress bar.

    `options` are those of `from_pretrained`. transformers publishes no types.

    Raises:
        ModelError: transformers cannot load it.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        with _without_progress_bar():
            return AutoModelForCausalLM.from_pretrained(path, local_files_only=True, **options)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"transformers cannot load {path}: {error}") from error


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Switch off the bars of transformers, which would draw over the output of the caller."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
