"""The rule by which the logged probabilities of a generation may be used."""

from dataclasses import replace
from typing import Any

import pytest

from atdp.lakehouse import (
    AdmissionRules,
    GenerationFacts,
    InadmissibleReason,
    why_inadmissible,
)

ALL_REASONS = AdmissionRules(reasons=tuple(InadmissibleReason))
ADMISSIBLE = GenerationFacts(
    prompt_token_ids=(1, 2),
    output_token_ids=(3, 4),
    output_logprobs=(-0.1, -0.2),
    loss_mask=None,
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    token_fidelity="exact",
    weight_versions=("v1",),
    training_eligible=True,
)


def reason_for(rules: AdmissionRules = ALL_REASONS, **changes: Any) -> InadmissibleReason | None:
    return why_inadmissible(replace(ADMISSIBLE, **changes), rules)


def test_a_generation_whose_probability_is_known_is_admissible() -> None:
    assert reason_for() is None
    assert reason_for(min_p=None) is None
    assert reason_for(loss_mask=(0, 1)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"training_eligible": False}, InadmissibleReason.NOT_ELIGIBLE),
        ({"training_eligible": None}, InadmissibleReason.NOT_ELIGIBLE),
        ({"prompt_token_ids": None}, InadmissibleReason.NO_TOKEN_IDS),
        ({"output_token_ids": ()}, InadmissibleReason.NO_TOKEN_IDS),
        ({"token_fidelity": "context_changed"}, InadmissibleReason.TOKENS_NOT_EXACT),
        ({"token_fidelity": None}, InadmissibleReason.TOKENS_NOT_EXACT),
        ({"output_logprobs": None}, InadmissibleReason.NO_LOGPROBS),
        ({"output_logprobs": ()}, InadmissibleReason.NO_LOGPROBS),
        ({"output_logprobs": (-0.1,)}, InadmissibleReason.LOGPROBS_LENGTH),
        ({"output_logprobs": (-0.1, float("nan"))}, InadmissibleReason.IMPOSSIBLE_LOGPROBS),
        ({"output_logprobs": (-0.1, float("-inf"))}, InadmissibleReason.IMPOSSIBLE_LOGPROBS),
        ({"output_logprobs": (-0.1, 1e-3)}, InadmissibleReason.IMPOSSIBLE_LOGPROBS),
        ({"loss_mask": (1,)}, InadmissibleReason.LOSS_MASK_LENGTH),
        ({"loss_mask": ()}, InadmissibleReason.LOSS_MASK_LENGTH),
        ({"loss_mask": (0, 0)}, InadmissibleReason.NO_TRAINABLE_TOKEN),
        ({"weight_versions": ()}, InadmissibleReason.WEIGHT_VERSION_UNKNOWN),
        ({"temperature": None}, InadmissibleReason.SAMPLING_UNKNOWN),
        ({"top_p": None}, InadmissibleReason.SAMPLING_UNKNOWN),
        ({"top_k": None}, InadmissibleReason.SAMPLING_UNKNOWN),
        ({"temperature": 0.0}, InadmissibleReason.TEMPERATURE),
        ({"top_p": 0.9}, InadmissibleReason.TRUNCATED_SUPPORT),
        ({"top_p": 0.0}, InadmissibleReason.TRUNCATED_SUPPORT),
        ({"top_k": 20}, InadmissibleReason.TRUNCATED_SUPPORT),
        ({"min_p": 0.1}, InadmissibleReason.TRUNCATED_SUPPORT),
        ({"sampling_altered_by": ("logit_bias",)}, InadmissibleReason.SAMPLING_ALTERED),
    ],
)
def test_each_reason_is_found_and_only_where_the_rules_ask_for_it(
    changes: dict[str, Any], reason: InadmissibleReason
) -> None:
    assert reason_for(**changes) is reason
    only = AdmissionRules(reasons=(reason,))
    assert reason_for(only, **changes) is reason
    assert reason_for(AdmissionRules(reasons=()), **changes) is None


def test_the_first_reason_in_the_order_of_the_rules_is_reported() -> None:
    reasons = (InadmissibleReason.NO_LOGPROBS, InadmissibleReason.TOKENS_NOT_EXACT)
    bad = {"output_logprobs": None, "token_fidelity": "dropped"}
    assert reason_for(AdmissionRules(reasons=reasons), **bad) is reasons[0]
    assert reason_for(AdmissionRules(reasons=reasons[::-1]), **bad) is reasons[1]


def test_a_log_probability_may_exceed_zero_by_the_rounding_of_an_engine() -> None:
    assert reason_for(output_logprobs=(-0.1, 1e-7)) is None


def test_a_use_may_demand_one_temperature() -> None:
    assert reason_for(temperature=0.7) is None
    one = replace(ALL_REASONS, temperature=1.0)
    assert reason_for(one, temperature=0.7) is InadmissibleReason.TEMPERATURE
    assert reason_for(one) is None


def test_a_use_may_read_an_empty_loss_mask_as_none() -> None:
    assert reason_for(replace(ALL_REASONS, empty_loss_mask_is_none=True), loss_mask=()) is None


@pytest.mark.parametrize("changes", [{"top_p": 1.1}, {"min_p": -0.1}])
def test_a_use_may_admit_parameters_out_of_range(changes: dict[str, Any]) -> None:
    assert reason_for(**changes) is InadmissibleReason.TRUNCATED_SUPPORT
    assert reason_for(replace(ALL_REASONS, admits_out_of_range=True), **changes) is None
