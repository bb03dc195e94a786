"""Supervised fine-tuning on logged conversations: the start of a model, or training where no token ids were logged.

Loss is on what the assistant wrote, its end-of-turn token included; everything else is context. The
template's prefix stability makes the pieces of a conversation independent: they are tokenised one
by one and never across a border.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from atdp.inference import ChatTemplate, Message, Tool
from atdp.trainer.checkpoint import seed_everything
from atdp.trainer.errors import TrainingError
from atdp.trainer.linearize import Row
from atdp.trainer.model import CausalLM
from atdp.trainer.step import likelihood_step
from atdp.trainer.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True)
class SftRules:
    """How supervised training is done."""

    steps: int = 300
    batch: int = 64
    """Conversations per step."""
    learning_rate: float = 1e-3
    warmup: float = 0.05
    """Share of the steps over which the learning rate rises; afterwards it falls along a cosine to
    a tenth."""
    weight_decay: float = 0.01
    budget: int = 4096
    max_grad_norm: float = 1.0
    seed: int = 0


def conversation_row(
    messages: Sequence[Message], tools: Sequence[Tool], template: ChatTemplate, tokenizer: Tokenizer
) -> Row:
    """One conversation as a row; a message's loss tokens end with the turn's end.

    Raises TrainingError when the template is not prefix-stable for it (then no exact loss mask
    exists).
    """
    tokens: list[int] = []
    trained: list[bool] = []
    held = ""

    def extend(text: str, *, train: bool) -> None:
        nonlocal held
        if not text.startswith(held):
            raise TrainingError(
                "the chat template changes earlier turns when later ones are added; use a prefix-stable one"
            )
        ids = tokenizer.encode(text[len(held) :], add_special_tokens=False).ids
        tokens.extend(ids)
        trained.extend([train] * len(ids))
        held = text

    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            extend(
                template.render(messages[:number], tools, add_generation_prompt=True), train=False
            )
            extend(template.render(messages[: number + 1], tools), train=True)
    if not tokens:
        raise TrainingError("the conversation has no assistant message")
    return Row(
        tokens=np.array(tokens, np.int64),
        trained=np.array(trained, bool),
        logprobs=np.zeros(len(tokens), np.float32),
    )


def rendered_texts(trajectories: Sequence[Trajectory], template: ChatTemplate) -> list[str]:
    """What a tokenizer should be trained on: the conversations as the model will see them."""
    return [template.render(t.messages, t.tools) for t in trajectories if t.messages]


def supervise(
    model: CausalLM,
    rows: Sequence[Row],
    rules: SftRules,
    *,
    on_step: Callable[[int, Mapping[str, Any]], None] = lambda _n, _f: None,
) -> dict[str, Any]:
    """Train for `rules.steps`; epochs are reshuffled by the seed.

    Returns figures of the whole training.
    """
    usable = [row for row in rows if row.loss_tokens]
    if not usable:
        raise TrainingError("nothing to train on: no logged conversation with an assistant message")
    seed_everything(rules.seed)
    shuffle = np.random.default_rng(rules.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=rules.learning_rate,
        betas=(0.9, 0.99),
        weight_decay=rules.weight_decay,
    )
    started, tokens, loss = time.perf_counter(), 0, math.nan
    order: list[int] = []
    for step in range(1, rules.steps + 1):
        while len(order) < min(rules.batch, len(usable)):
            order += shuffle.permutation(len(usable)).tolist()
        chosen, order = order[: rules.batch], order[rules.batch :]
        for group in optimizer.param_groups:
            group["lr"] = rules.learning_rate * schedule(step, rules)
        batch = [usable[n] for n in chosen]
        loss = likelihood_step(
            model, optimizer, batch, budget=rules.budget, max_grad_norm=rules.max_grad_norm
        )
        tokens += sum(len(row) for row in batch)
        on_step(step, {"loss": loss, "tokens": tokens})
    return {
        "loss": loss,
        "steps": rules.steps,
        "tokens": tokens,
        "seconds": time.perf_counter() - started,
    }


def schedule(step: int, rules: SftRules) -> float:
    """Share of the learning rate at `step` (from 1)."""
    warmup = max(1, round(rules.warmup * rules.steps))
    if step <= warmup:
        return step / warmup
    progress = (step - warmup) / max(1, rules.steps - warmup)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress))
