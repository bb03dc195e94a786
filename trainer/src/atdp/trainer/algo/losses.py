"""Policy-gradient losses over packed loss tokens.

Notation per token: ``logp`` is the trained policy, ``behaviour`` the logged one (the inference engine's log-probability at
the sampling temperature), ``proximal`` the policy at the start of the update. All arguments are 1-D over the loss tokens.

*Bypass* (default): PPO-clip with the **logged** log-probabilities as the old policy. One optimizer step per batch then still
has a trust region. *Decoupled* (Hilton et al. 2110.00641, AReaL 2505.24298): clip around the recomputed proximal policy and
weight by ``proximal / behaviour``; tokens whose weight leaves the band are masked (IcePop). With a single step per batch the
proximal policy *is* the trained one, the ratio is 1 and nothing is ever clipped; therefore it asks for two or more minibatches.

The denominator is the number of loss tokens of the whole step *before* any masking, so that masking tokens does not inflate
the gradient of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Correction = Literal["bypass", "decoupled"]


@dataclass(frozen=True, kw_only=True)
class Clip:
    """Trust region of the importance ratio."""

    low: float = 0.2
    high: float = 0.28
    """Clip-higher, DAPO 2503.14476."""
    dual: float | None = 3.0
    """Bounds the loss of bad tokens that became much more likely (Ye et al. 1912.09729); ``None`` switches it off."""
    band: tuple[float, float] = (0.5, 5.0)
    """Decoupled only: keep tokens whose proximal/behaviour weight lies within, ends included."""


@dataclass(frozen=True, kw_only=True)
class PolicyTerms:
    """Loss of one micro-batch and what happened to its tokens (1-D tensors, detached)."""

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
    """Clipped policy loss; with ``proximal`` decoupled, without it against the logged policy."""
    old = behaviour if proximal is None else proximal
    ratio = torch.exp(logp - old)
    clipped = ratio.clamp(1 - clip.low, 1 + clip.high)
    plain, bounded = -advantage * ratio, -advantage * clipped
    per_token = torch.maximum(plain, bounded)
    if clip.dual is not None:
        per_token = torch.where(advantage < 0, torch.minimum(per_token, -clip.dual * advantage), per_token)
    if proximal is None:
        weight, kept = torch.ones_like(ratio), torch.ones_like(ratio, dtype=torch.bool)
    else:
        weight = torch.exp((proximal - behaviour).detach())
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


def likelihood_loss(logp: torch.Tensor, *, denominator: float) -> torch.Tensor:
    """Negative log-likelihood per loss token (supervised fine-tuning); scalar."""
    return -logp.sum() / denominator
