"""Candidates and their results; unknown values stay null."""

import json

import pytest

from order_desk.candidates import CanaryOutcome, Candidate, Prediction, has_learned_enough
from order_desk.rate import Rate
from order_desk.uplift import Uplift


def candidate(**changes: object) -> Candidate:
    fields: dict[str, object] = {
        "round": 1,
        "version": "v2",
        "parent": "v1",
        "deliberately_bad": False,
        "steps": 8,
        "trajectories_used": 240,
        "training_reward": (0.3, 0.4),
        "verdict": "FAIL",
        "reasons": ("likelihood_falls",),
        "prediction": None,
    }
    return Candidate(**(fields | changes))  # type: ignore[arg-type]


def test_a_candidate_that_no_customer_met_has_no_measured_success() -> None:
    entry = candidate().to_json()
    assert entry["canary"] is None
    assert entry["measured"] is None
    assert entry["prediction"] is None


def test_a_promoted_candidate_shows_prediction_beside_measurement() -> None:
    canary = CanaryOutcome(
        share=0.5,
        candidate=Rate(successes=6, sessions=10),
        live=Rate(successes=3, sessions=10),
        verdict="PASS",
        outcome="promoted",
        margin=0.1,
    )
    prediction = Prediction(
        estimate=0.55,
        lower=0.4,
        upper=0.7,
        unbiased=0.5,
        baseline=0.3,
        uplift=Uplift(value=0.25, lower=0.1, upper=0.4),
        effective_sample_size=60.0,
        trajectories=120,
    )
    entry = candidate(verdict="PASS", canary=canary, prediction=prediction).to_json()
    assert json.loads(json.dumps(entry))["measured"] == 0.6


UNJUDGED = CanaryOutcome(
    share=0.5,
    candidate=Rate(successes=0, sessions=0),
    live=Rate(successes=0, sessions=0),
    verdict="INCONCLUSIVE",
    outcome="rolled back",
    margin=0.1,
)


def test_a_canary_that_nobody_judged_has_no_measured_success() -> None:
    entry = candidate(verdict="PASS", canary=UNJUDGED).to_json()
    assert entry["measured"] is None
    assert "NaN" not in json.dumps(entry)


def met_customers(successes: int, outcome: str) -> Candidate:
    return candidate(
        canary=CanaryOutcome(
            share=0.5,
            candidate=Rate(successes=successes, sessions=100),
            live=Rate(successes=20, sessions=100),
            verdict="PASS",
            outcome=outcome,
            margin=0.1,
        )
    )


@pytest.mark.parametrize(
    ("tried", "enough"),
    [
        ([], False),
        ([candidate()], False),
        ([met_customers(60, "rolled back")], False),
        ([candidate(canary=UNJUDGED)], False),
        ([met_customers(47, "promoted")], False),
        ([met_customers(48, "promoted")], True),
        ([met_customers(60, "promoted"), met_customers(40, "promoted")], False),
    ],
)
def test_learning_goes_on_until_the_last_promoted_version_serves_well_enough(
    tried: list[Candidate], enough: bool
) -> None:
    assert has_learned_enough(Rate(successes=40, sessions=200), tried, 2.4) is enough


@pytest.mark.parametrize(
    ("successes", "shown"),
    [
        (60, "better"),
        (5, "worse"),
        (24, "not worse by 10 points"),
        (19, "neither better nor worse"),
    ],
)
def test_a_canary_says_what_it_has_shown_and_no_more(successes: int, shown: str) -> None:
    canary = met_customers(successes, "promoted").canary
    assert canary is not None
    assert canary.shown == shown
    assert UNJUDGED.shown == "nothing, since no session was judged"


def test_the_interval_of_an_uplift_is_that_of_newcombe() -> None:
    # Newcombe 1998, table II, method 10: 56/70 against 48/80.
    uplift = Uplift.between(Rate(successes=56, sessions=70), Rate(successes=48, sessions=80))
    assert uplift is not None
    assert uplift.value == pytest.approx(0.2)
    assert (uplift.lower, uplift.upper) == pytest.approx((0.0524, 0.3339), abs=5e-5)
