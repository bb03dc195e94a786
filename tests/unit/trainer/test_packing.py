"""Packed batches against a plain padded reference: same loss, same gradient."""

from pathlib import Path

import numpy as np
import pytest
import torch

from atdp.inference.tokenizer import train_tokenizer
from atdp.trainer.algo.losses import policy_loss
from atdp.trainer.algo.trust_region import Clip
from atdp.trainer.attention import packed_attention
from atdp.trainer.linearize import Row
from atdp.trainer.logprob import token_logprobs
from atdp.trainer.model import CausalLM, new_model, save_model, save_tokenizer
from atdp.trainer.model_shape import ModelShape
from atdp.trainer.packing import pack


def random_rows(count: int, seed: int) -> tuple[list[Row], list[float]]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        size = int(rng.integers(2, 40))
        trained = rng.random(size) < 0.4
        trained[0], trained[-1] = False, True
        logprobs = np.where(trained, -rng.random(size) * 4, 0).astype(np.float32)
        tokens = rng.integers(0, 261, size)
        rows.append(
            Row(
                tokens=tokens,
                trained=trained,
                logprobs=logprobs,
                temperature=float(rng.choice([0.7, 1.0])),
            )
        )
    return rows, rng.normal(size=count).tolist()


def padded_loss(model: CausalLM, rows: list[Row], advantages: list[float]) -> torch.Tensor:
    """Return the loss over rows that are padded to the longest one."""
    width, total = max(map(len, rows)), sum(row.loss_tokens for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for n, row in enumerate(rows):
        ids[n, : len(row)], mask[n, : len(row)] = torch.from_numpy(row.tokens), 1
    temperatures = torch.tensor([row.temperature for row in rows])[:, None, None]
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1] / temperatures
    logps = torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None])[..., 0]
    loss = torch.zeros(())
    for n, row in enumerate(rows):
        picked = torch.from_numpy(row.trained[1:])
        logp = logps[n, : len(row) - 1][picked]
        behaviour = torch.from_numpy(row.logprobs[1:])[picked]
        advantage = torch.full_like(logp, advantages[n])
        loss = loss + policy_loss(logp, behaviour, advantage, denominator=total, clip=Clip()).loss
    return loss


@pytest.mark.parametrize("budget", [100, 4096])
def test_packed_loss_and_gradient_equal_a_padded_reference(tmp_path: Path, budget: int) -> None:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    tokenizer = train_tokenizer([], 261)
    model = new_model(ModelShape(layers=2), tokenizer, seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    save_tokenizer(tokenizer, tmp_path, context=2048)
    save_model(model, tmp_path / "model", tokenizer_from=tmp_path)
    rows, advantages = random_rows(24, seed=0)
    total = sum(row.loss_tokens for row in rows)

    packed = 0.0
    for batch in pack(rows, advantages, budget=budget):
        logp = token_logprobs(model, batch).logp
        loss = policy_loss(
            logp, batch.behaviour, batch.advantage, denominator=total, clip=Clip()
        ).loss
        torch.autograd.backward(loss)
        packed += loss.item()

    reference = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", attn_implementation="eager", dtype=torch.float32
    )
    padded = padded_loss(reference, rows, advantages)
    torch.autograd.backward(padded)

    ours = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    theirs = torch.cat([weight.grad.flatten() for weight in reference.parameters()])
    assert packed == pytest.approx(padded.item(), rel=1e-4)
    assert (ours - theirs).norm() / theirs.norm() < 1e-4


def test_without_row_boundaries_rows_would_see_each_other() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, 10, 8) for heads in (4, 2, 2))
    apart, _ = packed_attention(None, q, k, v, None, boundaries=(0, 4, 10))
    mixed, _ = packed_attention(None, q, k, v, None)
    alone, _ = packed_attention(None, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], None)
    assert torch.allclose(apart[:, 4:], alone, atol=1e-6)
    assert not torch.allclose(mixed[:, 4:], alone, atol=1e-2)


def test_every_loss_token_is_packed_once_with_its_own_rows_values() -> None:
    rows, advantages = random_rows(30, seed=1)
    batches = pack(rows, advantages, budget=64)
    expected = sorted(
        (
            int(row.tokens[n]),
            float(row.logprobs[n]),
            round(advantages[i], 5),
            round(row.temperature, 5),
        )
        for i, row in enumerate(rows)
        for n in range(len(row))
        if row.trained[n]
    )
    packed_values = sorted(
        (int(t), float(b), round(float(a), 5), round(float(s), 5))
        for batch in batches
        for t, b, a, s in zip(
            batch.targets, batch.behaviour, batch.advantage, batch.temperature, strict=True
        )
    )
    assert [f[:2] for f in packed_values] == [e[:2] for e in expected]
    assert [f[3] for f in packed_values] == [e[3] for e in expected]
    assert all(batch.tokens.shape[1] <= 64 or len(batch.boundaries) == 2 for batch in batches)
