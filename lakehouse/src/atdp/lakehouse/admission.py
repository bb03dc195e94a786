"""Admission of logged generations: the one rule by which their probabilities can be used.

Training by RL and the offline evaluation of a policy both weigh logged tokens by the probability
with which the engine sampled them. A generation whose tokens, log-probabilities or sampling
parameters do not give that probability is inadmissible, for one `InadmissibleReason`.

The two uses differ in what they ask for. These differences are the fields of `AdmissionRules`; the
checks themselves exist only here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from atdp.schemas import BrokenPrefix, TokenFidelity

LOGPROB_TOLERANCE = 1e-6
"""The most by which a log-probability may exceed 0, in nats: engines compute in float32."""

EXACT: TokenFidelity = "exact"
"""Token fidelity of a generation that redaction has not touched."""
CONTEXT_CHANGED: TokenFidelity = "context_changed"
"""Token fidelity of a generation of which redaction has changed the prompt only."""
SPLICED: TokenFidelity = "spliced"
"""Token fidelity of a generation of which redaction has replaced tokens of the output."""

_WITH_TOKENS = (EXACT, CONTEXT_CHANGED, SPLICED)


def admitted_fidelities(worst: TokenFidelity) -> frozenset[TokenFidelity]:
    """Return the token fidelities up to `worst`; those without token ids are never among them."""
    if worst not in _WITH_TOKENS:
        return frozenset(_WITH_TOKENS)
    return frozenset(_WITH_TOKENS[: _WITH_TOKENS.index(worst) + 1])


class InadmissibleReason(StrEnum):
    """The reason why the logged probability of a generation cannot be used."""

    NOT_ELIGIBLE = "not_eligible"
    """Governance does not allow training on it."""
    CONTEXT_BROKEN = "context_broken"
    """The recorded context is not what the model was shown: events are missing."""
    PREFIX_BROKEN = "prefix_broken"
    """The prompt refers to tokens of an earlier generation that are not there."""
    NO_TOKEN_IDS = "no_token_ids"  # noqa: S105 - not a password
    """Prompt ids or output ids are missing."""
    TOKENS_NOT_EXACT = "tokens_not_exact"
    """Redaction changed the text, so the ids are not what the engine saw and sampled."""
    NO_LOGPROBS = "no_logprobs"
    """No log-probability was logged."""
    LOGPROBS_LENGTH = "logprobs_length"
    """There is not exactly one log-probability per output token."""
    IMPOSSIBLE_LOGPROBS = "impossible_logprobs"
    """A log-probability is not finite, or above 0 by more than `LOGPROB_TOLERANCE`."""
    LOSS_MASK_LENGTH = "loss_mask_length"
    """There is not exactly one value of the loss mask per output token."""
    NO_TRAINABLE_TOKEN = "no_trainable_token"  # noqa: S105 - not a password
    """The loss mask leaves no output token."""
    WEIGHT_VERSION_UNKNOWN = "weight_version_unknown"
    """It is not known which weights sampled the output."""
    SAMPLING_UNKNOWN = "sampling_unknown"
    """Temperature, top-p or top-k was not recorded."""
    TEMPERATURE = "temperature"
    """The temperature is not one that `AdmissionRules.temperature` admits."""
    TRUNCATED_SUPPORT = "truncated_support"
    """Top-p, top-k or min-p gave some tokens of the vocabulary the probability 0."""
    SAMPLING_ALTERED = "sampling_altered"
    """A penalty, bias or grammar changed the sampling (see `sampling_effects`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionRules:
    """The demands of one use of logged generations."""

    reasons: tuple[InadmissibleReason, ...]
    """Reasons that make a generation inadmissible. The first one that applies is reported."""
    temperature: float | None = None
    """The only admissible temperature; None admits every one above 0."""
    empty_loss_mask_is_none: bool = False
    """Read a loss mask without values as no mask. Otherwise its length is wrong."""
    admits_out_of_range: bool = False
    """Admit top-p above 1 and min-p below 0. They truncate nothing, but are no valid parameters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationFacts:
    """The facts about one generation that decide its admission; None is unknown."""

    prompt_token_ids: Sequence[int] | None
    output_token_ids: Sequence[int] | None
    output_logprobs: Sequence[float] | None
    """Natural logarithm of the sampling probability of each output token."""
    loss_mask: Sequence[int] | None
    """1 = trains, per output token; None: every token does."""
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    """None is 0, since not every engine has this parameter."""
    sampling_altered_by: Sequence[str] = ()
    """Further request parameters that changed the sampling."""
    token_fidelity: str | None = None
    weight_versions: Sequence[str] = ()
    training_eligible: bool | None = None
    broken_prefix: BrokenPrefix | None = None
    """The reason why the reference of the prompt cannot be followed; None: there is none."""
    context_intact: bool = True
    """True when the recorded context is known to be what the model was shown."""


def why_inadmissible(facts: GenerationFacts, rules: AdmissionRules) -> InadmissibleReason | None:
    """Return the first of `rules.reasons` that applies to a generation; None: admissible."""
    return next((reason for reason in rules.reasons if _CHECKS[reason](facts, rules)), None)


def _no_token_ids(facts: GenerationFacts, _rules: AdmissionRules) -> bool:
    return not facts.prompt_token_ids or not facts.output_token_ids


def _logprobs_length(facts: GenerationFacts, _rules: AdmissionRules) -> bool:
    return len(facts.output_logprobs or ()) != len(facts.output_token_ids or ())


def _impossible_logprobs(facts: GenerationFacts, _rules: AdmissionRules) -> bool:
    return not all(
        math.isfinite(logprob) and logprob <= LOGPROB_TOLERANCE
        for logprob in facts.output_logprobs or ()
    )


def _loss_mask_length(facts: GenerationFacts, rules: AdmissionRules) -> bool:
    mask = facts.loss_mask
    if mask is None or (not mask and rules.empty_loss_mask_is_none):
        return False
    return len(mask) != len(facts.output_token_ids or ())


def _no_trainable_token(facts: GenerationFacts, _rules: AdmissionRules) -> bool:
    return bool(facts.loss_mask) and not any(facts.loss_mask or ())


def _sampling_unknown(facts: GenerationFacts, _rules: AdmissionRules) -> bool:
    return facts.temperature is None or facts.top_p is None or facts.top_k is None


def _temperature(facts: GenerationFacts, rules: AdmissionRules) -> bool:
    if facts.temperature is None:
        return False
    if rules.temperature is None:
        return facts.temperature <= 0
    return facts.temperature != rules.temperature


def _truncated_support(facts: GenerationFacts, rules: AdmissionRules) -> bool:
    top_p = 1.0 if facts.top_p is None else facts.top_p
    min_p = 0.0 if facts.min_p is None else facts.min_p
    if facts.top_k is not None and facts.top_k > 0:
        return True
    if rules.admits_out_of_range:
        return top_p < 1 or min_p > 0
    return top_p != 1 or min_p != 0


_CHECKS: Mapping[InadmissibleReason, Callable[[GenerationFacts, AdmissionRules], bool]] = {
    InadmissibleReason.NOT_ELIGIBLE: lambda facts, _: not facts.training_eligible,
    InadmissibleReason.CONTEXT_BROKEN: lambda facts, _: not facts.context_intact,
    InadmissibleReason.PREFIX_BROKEN: lambda facts, _: facts.broken_prefix is not None,
    InadmissibleReason.NO_TOKEN_IDS: _no_token_ids,
    InadmissibleReason.TOKENS_NOT_EXACT: lambda facts, _: facts.token_fidelity != EXACT,
    InadmissibleReason.NO_LOGPROBS: lambda facts, _: not facts.output_logprobs,
    InadmissibleReason.LOGPROBS_LENGTH: _logprobs_length,
    InadmissibleReason.IMPOSSIBLE_LOGPROBS: _impossible_logprobs,
    InadmissibleReason.LOSS_MASK_LENGTH: _loss_mask_length,
    InadmissibleReason.NO_TRAINABLE_TOKEN: _no_trainable_token,
    InadmissibleReason.WEIGHT_VERSION_UNKNOWN: lambda facts, _: not facts.weight_versions,
    InadmissibleReason.SAMPLING_UNKNOWN: _sampling_unknown,
    InadmissibleReason.TEMPERATURE: _temperature,
    InadmissibleReason.TRUNCATED_SUPPORT: _truncated_support,
    InadmissibleReason.SAMPLING_ALTERED: lambda facts, _: bool(facts.sampling_altered_by),
}
