"""Trajectories that only their changed tokens refuse are read without tokens, for their rewards."""

from dataclasses import replace

import pytest

from atdp.lakehouse import Lake, ReadOptions, governed_trajectories
from atdp.lakehouse.testing import LogDouble, SampleTrajectory
from atdp.schemas import Event, Governance

SAMPLE = SampleTrajectory(reward=0.25)
CALL, TOOL, LATER_CALL = 2, 3, 6
ALSO = ReadOptions(with_messages=False, with_changed_tokens=True)


def restamped(events: list[Event], place: int, **changes: object) -> list[Event]:
    stamp = events[place].governance or Governance()
    changed = replace(events[place], governance=replace(stamp, **changes))  # type: ignore[arg-type]
    return [*events[:place], changed, *events[place + 1 :]]


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        ({"token_fidelity": "spliced"}, "tokens_not_exact"),
        (
            {
                "token_fidelity": "dropped",
                "training_eligible": False,
                "eligibility_reason": "token_fidelity_dropped",
            },
            "token_fidelity_dropped",
        ),
        (
            {
                "token_fidelity": "dropped",
                "training_eligible": False,
                "eligibility_reason": "ids_do_not_match_text",
            },
            "ids_do_not_match_text",
        ),
    ],
)
def test_their_rewards_and_versions_are_read_and_their_tokens_are_not(
    lake: Lake, log: LogDouble, stamp: dict[str, object], reason: str
) -> None:
    log.land(restamped(SAMPLE.events(), CALL, **stamp))
    refused = governed_trajectories(lake, purpose="train")
    assert (list(refused), refused.refused) == ([], {reason: 1})
    read = governed_trajectories(lake, purpose="train", options=ALSO)
    assert read.refused == {}
    (record,) = read
    assert (record.tokens_refused, record.reward) == (reason, 0.25)
    for call in record.generations:
        assert call.weight_versions == ("v1",)
        assert (call.prompt_token_ids, call.output_token_ids, call.output_logprobs) == ((), (), ())


def test_what_is_refused_for_another_reason_too_stays_refused(lake: Lake, log: LogDouble) -> None:
    changed = {
        "token_fidelity": "spliced",
        "training_eligible": False,
        "eligibility_reason": "token_fidelity_spliced",
    }

    def land(name: str, **fields: object) -> list[Event]:
        sample = replace(SAMPLE, name=name, **fields)  # type: ignore[arg-type]
        return restamped(sample.events(), CALL, **changed)

    opted_out = {"training_eligible": False, "eligibility_reason": "opt_out"}
    log.land(restamped(land("opted-out"), TOOL, **opted_out))
    log.land(restamped(land("no-ids"), LATER_CALL, token_fidelity="unknown"))
    log.land(restamped(land("not-settled"), TOOL, learned_version=1))
    log.land(land("withdrawn", consent="withdrawn"))
    log.land(land("analytics", purposes=("analytics",)))
    read = governed_trajectories(lake, purpose="train", options=ALSO)
    assert list(read) == []
    assert read.refused == {
        "token_fidelity_spliced": 2,
        "not_settled": 1,
        "consent_withdrawn": 1,
        "purpose_not_allowed": 1,
    }


def test_tokens_that_may_be_trained_on_are_read_as_they_are(lake: Lake, log: LogDouble) -> None:
    log.land(SAMPLE.events())
    (record,) = governed_trajectories(lake, purpose="train", options=ALSO)
    assert record.tokens_refused is None
    assert all(call.output_token_ids for call in record.generations)
