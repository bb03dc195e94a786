"""Log-probabilities of the loss tokens of a packed batch under a model."""

from dataclasses import dataclass

import torch

from atdp.trainer.model import CausalLM
from atdp.trainer.packing import PackedBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLogprobs:
    """Values per loss token, [N] float32."""

    logp: torch.Tensor
    """Log-probability at the logged temperature, with gradient."""
    entropy: torch.Tensor
    """Entropy of the distribution in nats, detached."""


def token_logprobs(model: CausalLM, batch: PackedBatch) -> TokenLogprobs:
    """Run the model over the packed rows, with the head only at the positions of loss tokens."""
    hidden = model.get_decoder()(
        input_ids=batch.tokens,
        position_ids=batch.positions,
        boundaries=batch.boundaries,
        use_cache=False,
    ).last_hidden_state[0]
    logits = (
        model.get_output_embeddings()(hidden[batch.predict_at]).float() / batch.temperature[:, None]
    )
    logprobs = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    return TokenLogprobs(logp=logprobs.gather(1, batch.targets[:, None])[:, 0], entropy=entropy)
