"""One optimizer step: from rows with advantages to changed weights and figures about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from atdp.trainer.algo.diagnostics import Drift, drift
from atdp.trainer.algo.losses import Clip, Correction, PolicyTerms, likelihood_loss, policy_loss
from atdp.trainer.errors import TrainingError
from atdp.trainer.linearize import Row
from atdp.trainer.logprob import token_logprobs
from atdp.trainer.model import CausalLM
from atdp.trainer.packing import PackedBatch, pack


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """How a policy step is done."""

    clip: Clip = field(default_factory=Clip)
    correction: Correction = "bypass"
    minibatches: int = 1
    """Optimizer updates per step; decoupled correction needs at least 2 (see algo.losses)."""
    budget: int = 4096
    """Tokens per packed batch."""
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        """Check that the combination means something."""
        if self.minibatches < 1:
            raise ValueError("minibatches must be at least 1")
        if self.correction == "decoupled" and self.minibatches < 2:
            raise ValueError(
                "decoupled correction with one minibatch never clips; use minibatches >= 2 or bypass"
            )


@dataclass(frozen=True, kw_only=True)
class StepFigures:
    """What a policy step did."""

    loss: float
    grad_norm: float
    """Before clipping; of the last minibatch."""
    tokens: int
    """Tokens forwarded, all of them real."""
    loss_tokens: int
    drift: Drift

    def to_json(self) -> dict[str, Any]:
        """Flat JSON form."""
        flat = {
            "loss": self.loss,
            "grad_norm": self.grad_norm,
            "tokens": self.tokens,
            "loss_tokens": self.loss_tokens,
        }
        return (
            flat | asdict(self.drift) | {"tokens": self.tokens, "alarms": list(self.drift.alarms)}
        )


def policy_step(
    model: CausalLM,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    advantages: Sequence[float],
    rules: StepRules,
    *,
    on_point: Callable[[str], None] = lambda _: None,
) -> StepFigures:
    """Train on `rows` once.

    Raises TrainingError when the loss or gradient is not finite; the weights are then unusable.
    """
    parts = [list(range(n, len(rows), rules.minibatches)) for n in range(rules.minibatches)]
    minibatches = [
        pack([rows[n] for n in part], [advantages[n] for n in part], budget=rules.budget)
        for part in parts
    ]
    proximal = _proximal(model, minibatches) if rules.correction == "decoupled" else None
    terms: list[PolicyTerms] = []
    seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    loss, grad_norm = 0.0, 0.0
    for number, batches in enumerate(minibatches):
        denominator = sum(batch.targets.numel() for batch in batches)
        if not denominator:
            continue
        optimizer.zero_grad(set_to_none=True)
        for index, batch in enumerate(batches):
            tokens = token_logprobs(model, batch)
            term = policy_loss(
                tokens.logp,
                batch.behaviour,
                batch.advantage,
                denominator=denominator,
                clip=rules.clip,
                proximal=None if proximal is None else proximal[number][index],
            )
            torch.autograd.backward(term.loss)
            loss += term.loss.item() / len(minibatches)
            terms.append(term)
            seen.append((tokens.logp.detach(), batch.behaviour, tokens.entropy))
            on_point("micro-batch done")
        grad_norm = update(model, optimizer, loss, rules.max_grad_norm)
    if not terms:
        raise TrainingError("the step has no loss tokens; check the loss masks of the generations")
    logp, behaviour, entropy = (torch.cat(part) for part in zip(*seen, strict=True))
    return StepFigures(
        loss=loss,
        grad_norm=grad_norm,
        tokens=sum(batch.tokens.numel() for batches in minibatches for batch in batches),
        loss_tokens=logp.numel(),
        drift=drift(terms, logp, behaviour, entropy),
    )


def _proximal(
    model: CausalLM, minibatches: Sequence[Sequence[PackedBatch]]
) -> list[list[torch.Tensor]]:
    """Log-probabilities under the policy at the start of the step."""
    with torch.no_grad():
        return [[token_logprobs(model, batch).logp for batch in batches] for batches in minibatches]


def likelihood_step(
    model: CausalLM,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    *,
    budget: int,
    max_grad_norm: float,
) -> float:
    """Supervised step; returns the mean negative log-likelihood per loss token."""
    batches = pack(rows, [1.0] * len(rows), budget=budget)
    denominator = sum(batch.targets.numel() for batch in batches)
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for batch in batches:
        loss = likelihood_loss(token_logprobs(model, batch).logp, denominator=denominator)
        torch.autograd.backward(loss)
        total += loss.item()
    update(model, optimizer, total, max_grad_norm)
    return total


def update(
    model: CausalLM, optimizer: torch.optim.Optimizer, loss: float, max_grad_norm: float
) -> float:
    """Clip the gradient and step; returns its norm before clipping."""
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm))
    if not (math.isfinite(norm) and math.isfinite(loss)):
        raise TrainingError(
            f"loss {loss} or gradient norm {norm} is not finite; lower the learning rate"
        )
    optimizer.step()
    return norm
