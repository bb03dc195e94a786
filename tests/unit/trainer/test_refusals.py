"""A training that policies or consent have left without data says so in words."""

from atdp.trainer.options import explain_refusals


def test_refusals_by_consent_and_policy_are_explained() -> None:
    words = explain_refusals({"consent_unknown": 4, "consent_withdrawn_since": 1})
    assert "consent to training is not known; consent to training is withdrawn" in words
    assert "`atdp consent list`" in words
    assert "does not allow" in explain_refusals({"purpose_not_allowed": 2})


def test_other_reasons_are_not_taken_for_refusals() -> None:
    assert explain_refusals({}) == ""
    assert explain_refusals({"consent_unknown": 1, "no reward": 1}) == ""
