"""Policy-gradient losses over packed loss tokens.

Notation per token: `logp` is the trained policy, `behaviour` the logged one (the inference engine's
log-probability at the sampling temperature), `proximal` the policy at the start of the update. All
arguments are 1-D over the loss tokens.

*Bypass* (default): PPO-clip with the **logged** log-probabilities as the old policy. One optimizer
step per batch then still has a trust region. *Decoupled* (Hilton et al. 2110.00641, AReaL
2505.24298): clip around the recomputed proximal policy and weight by `proximal / behaviour`; tokens
whose weight leaves the band are masked (IcePop). With a single step per batch the proximal policy
*is* the trained one, the ratio is 1 and nothing is ever clipped; therefore it asks for two or more
minibatches.

The denominator is the number of loss tokens of the whole step *before* any masking, so that masking
tokens does not inflate the gradient of the rest.

Log ratios are clamped to ±20 before they are exponentiated, as verl does
(`core_algos.compute_policy_loss`): a token that was logged as almost impossible has an infinite
ratio, and a loss that takes the other branch still has 0 x infinity as its gradient. Other results
do not change, since every trust region ends far below e^20.
"""

from dataclasses import dataclass

import torch

from atdp.trainer.algo.trust_region import Clip

MAX_LOG_RATIO = 20.0
"""Nats, either way. e^20 and its square are finite in float32; beyond 44 the square, beyond 88 the
ratio itself overflows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyTerms:
    """The loss of one micro-batch, and per-token values (1-D tensors, detached)."""

    loss: torch.Tensor
    """Scalar with gradient: sum over kept tokens / denominator."""
    ratio: torch.Tensor
    weight: torch.Tensor
    clipped_low: torch.Tensor
    clipped_high: torch.Tensor
    kept: torch.Tensor


def policy_loss(
    logp: torch.Tensor,
    behaviour: torch.Tensor,
    advantage: torch.Tensor,
    *,
    denominator: float,
    clip: Clip,
    proximal: torch.Tensor | None = None,
) -> PolicyTerms:
    """Return the clipped policy loss: decoupled with `proximal`, else against the logged policy."""
    old = behaviour if proximal is None else proximal
    ratio = bounded_log_ratio(logp, old).exp()
    clipped = ratio.clamp(1 - clip.low, 1 + clip.high)
    plain, bounded = -advantage * ratio, -advantage * clipped
    per_token = torch.maximum(plain, bounded)
    if clip.dual is not None:
        per_token = torch.where(
            advantage < 0, torch.minimum(per_token, -clip.dual * advantage), per_token
        )
    if proximal is None:
        weight, kept = torch.ones_like(ratio), torch.ones_like(ratio, dtype=torch.bool)
    else:
        weight = bounded_log_ratio(proximal, behaviour).detach().exp()
        kept = (weight >= clip.band[0]) & (weight <= clip.band[1])
        per_token = torch.where(kept, weight * per_token, torch.zeros_like(per_token))
    with torch.no_grad():
        low = (bounded > plain) & (ratio < 1 - clip.low)
        high = (bounded > plain) & (ratio > 1 + clip.high)
    return PolicyTerms(
        loss=per_token.sum() / denominator,
        ratio=ratio.detach(),
        weight=weight,
        clipped_low=low,
        clipped_high=high,
        kept=kept,
    )


def bounded_log_ratio(logp: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """Return `logp - old` clamped to ±MAX_LOG_RATIO; a clamped token has no gradient."""
    return (logp - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def likelihood_loss(logp: torch.Tensor, *, denominator: float) -> torch.Tensor:
    """Return the negative log-likelihood per loss token (supervised fine-tuning); scalar."""
    return -logp.sum() / denominator
