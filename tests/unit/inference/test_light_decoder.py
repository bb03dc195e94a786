"""The NumPy decoder against transformers, through every way a batch can change."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from atdp.inference.errors import ModelError
from atdp.inference.tokenizer import train_tokenizer
from atdp.inference.worker.decoder import PrefillRow
from atdp.inference.worker.decoder_choice import load_decoder
from atdp.inference.worker.qwen3 import Qwen3Decoder
from atdp.trainer.model import ModelShape, new_model, save_model, save_tokenizer

VOCAB = 261
TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(
    tuple
)  # few symbols: shared prefixes are common
ACTIONS = st.lists(
    st.one_of(
        st.lists(TOKENS, min_size=1, max_size=4).map(lambda prompts: ("join", prompts)),
        st.just(("step", None)),
        st.integers(0, 5).map(lambda n: ("leave", n)),
        st.just(("flush", None)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("tiny")
    tokenizer = train_tokenizer([], VOCAB)
    model = new_model(
        ModelShape(
            hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=64, context=256
        ),
        tokenizer,
        seed=2,
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    save_tokenizer(tokenizer, path, context=256)
    save_model(model, path / "model", tokenizer_from=path)
    return path / "model"


class Plain:
    """One sequence at a time, no cache."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()

    def last(self, tokens: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        with torch.inference_mode():
            logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = (
                self._model(torch.tensor([tokens])).logits[0, -1].numpy()
            )
        return logits


@pytest.fixture(scope="module")
def plain(directory: Path) -> Plain:
    return Plain(directory)


@given(ACTIONS)
@settings(max_examples=40)
def test_whatever_joins_steps_and_leaves_the_logits_are_those_of_transformers(
    directory: Path, plain: Plain, actions: list[tuple[str, object]]
) -> None:
    decoder = Qwen3Decoder.load(directory, max_rows=8)
    held: list[list[int]] = []
    for action, detail in actions:
        if action == "join" and isinstance(detail, list):
            prompts = detail[: 8 - len(held)]
            if not prompts:
                continue
            read = decoder.prefill([PrefillRow(tokens=prompt) for prompt in prompts])
            for prompt, result in zip(prompts, read, strict=True):
                assert np.abs(result.logits[-1] - plain.last(list(prompt))).max() < 1e-4
                held.append(list(prompt))
        elif action == "step" and held:
            tokens = [(sum(row) + n) % 4 for n, row in enumerate(held)]
            logits = decoder.step(tokens)
            for row, token, found in zip(held, tokens, logits, strict=True):
                row.append(token)
                assert np.abs(found - plain.last(row)).max() < 1e-4
        elif action == "leave" and isinstance(detail, int) and detail < len(held):
            order = decoder.remove({detail, 0})
            held = [held[n] for n in order]
        elif action == "flush":
            decoder.flush()
        assert len(decoder) == len(held)


def test_a_known_prefix_is_not_computed_again_and_a_flush_forgets_it(directory: Path) -> None:
    decoder = Qwen3Decoder.load(directory, max_rows=4)
    prompt = tuple(range(20))
    decoder.prefill([PrefillRow(tokens=prompt)])
    decoder.remove({0})
    (again,) = decoder.prefill([PrefillRow(tokens=(*prompt, 5, 6))])
    assert again.cached == 20
    decoder.remove({0})
    decoder.flush()
    (fresh,) = decoder.prefill([PrefillRow(tokens=prompt)])
    assert fresh.cached == 0


def test_sequences_may_grow_to_the_models_context(directory: Path, plain: Plain) -> None:
    decoder = Qwen3Decoder.load(directory, max_rows=2)
    tokens = [n % VOCAB for n in range(120)]
    decoder.prefill([PrefillRow(tokens=tuple(tokens))])
    for _ in range(136):
        tokens.append(len(tokens) % VOCAB)
        logits = decoder.step([tokens[-1]])
    assert len(tokens) == decoder.context
    assert np.abs(logits[0] - plain.last(tokens)).max() < 1e-4


def test_the_light_decoder_is_chosen_for_a_small_qwen3_and_a_broken_directory_is_explained(
    directory: Path, tmp_path: Path
) -> None:
    assert isinstance(load_decoder(directory), Qwen3Decoder)
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        load_decoder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot be read"):
        load_decoder(tmp_path)
