"""Steps and trajectories are folds; rewards join whenever they come."""

import hashlib
import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

from atdp.lakehouse import Lake, connect
from atdp.lakehouse.testing import LogDouble, SampleTrajectory
from atdp.schemas import Cost, Reward, TrajectoryEnded, Usage

T = SampleTrajectory(turns=2, reward=None)


def one(lake: Lake, query: str) -> dict[str, Any]:
    with connect(lake=lake) as connection:
        (row,) = connection.sql(query).dicts()
    return row


def test_a_trajectory_is_the_fold_of_its_events(lake: Lake, log: LogDouble) -> None:
    log.land(replace(T, reward=0.5).events())
    row = one(lake, "SELECT * FROM trajectories")
    assert {
        name: row[name]
        for name in ("steps", "generations", "tool_calls", "messages", "status", "reward")
    } == {
        "steps": 2,
        "generations": 2,
        "tool_calls": 2,
        "messages": 6,
        "status": "completed",
        "reward": 0.5,
    }
    assert row["weight_versions"] == ["v1"]
    assert (row["input_tokens"], row["output_tokens"], row["latency_us"]) == (24, 24, 3000)
    assert row["cost"] is None
    assert row["training_eligible"] is True
    assert row["token_fidelity"] == "exact"
    assert (row["first_offset"], row["last_offset"]) == (0, 10)


def test_a_sum_beyond_64_bits_spoils_no_other_row(lake: Lake, log: LogDouble) -> None:
    most = 2**63 - 1
    usage, cost = Usage(input_tokens=most, output_tokens=most), Cost(amount=1e308, currency="EUR")
    log.land(
        replace(event, usage=usage, cost=cost, latency_us=most)
        for event in replace(T, name="huge").events()
    )
    log.land(T.events())
    with connect(lake=lake) as connection:
        rows = connection.sql(
            "SELECT input_tokens, output_tokens, latency_us FROM trajectories ORDER BY 1"
        ).rows()
        assert len(connection.sql("SELECT * FROM trajectories").rows()) == 2
        assert len(connection.sql("SELECT * FROM steps").rows()) == 4
    assert rows == [(24, 24, 3000), (None, None, None)]


def test_costs_in_several_currencies_have_no_sum(lake: Lake, log: LogDouble) -> None:
    for name, second in (("euros", "EUR"), ("both", "USD"), ("free", "USD")):
        amounts = itertools.cycle([("EUR", 2.0), (second, 0.0 if name == "free" else 1.0)])
        log.land(
            replace(event, cost=Cost(amount=amount, currency=currency))
            for event, (currency, amount) in zip(
                replace(T, name=name).events()[:4], amounts, strict=False
            )
        )
    with connect(lake=lake) as connection:
        rows = connection.sql("SELECT trajectory_id, cost FROM trajectories ORDER BY 1").rows()
        steps = connection.sql("SELECT trajectory_id, sum(cost) FROM steps GROUP BY 1").rows()
    assert rows == [("both", None), ("euros", 6.0), ("free", 4.0)]
    # The start of a trajectory belongs to no step.
    assert dict(steps) == {"both": None, "euros": 4.0, "free": 2.0}


def test_no_reward_is_null_and_a_reward_of_zero_is_zero(lake: Lake, log: LogDouble) -> None:
    log.land(replace(T, name="none").events())
    log.land(replace(T, name="zero", reward=0.0).events())
    with connect(lake=lake) as connection:
        rows = connection.sql("SELECT trajectory_id, reward FROM trajectories ORDER BY 1").rows()
    assert rows == [("none", None), ("zero", 0.0)]


def test_a_late_reward_joins_and_what_it_refers_to_is_unchanged(lake: Lake, log: LogDouble) -> None:
    log.land(T.events())
    with connect(lake=lake) as connection:
        before = connection.sql(
            "SELECT * EXCLUDE ingested_at FROM events ORDER BY kafka_offset"
        ).rows()
    assert one(lake, "SELECT reward, last_offset FROM trajectories") == {
        "reward": None,
        "last_offset": 9,
    }
    log.land([T.event(T.reward_body(1.0, later_s=86_400), seq=10)])
    assert one(lake, "SELECT reward, last_offset, status FROM trajectories") == {
        "reward": 1.0,
        "last_offset": 10,
        "status": "completed",
    }
    with connect(lake=lake) as connection:
        after = connection.sql(
            "SELECT * EXCLUDE ingested_at FROM events WHERE kind <> 'reward' ORDER BY kafka_offset"
        ).rows()
    assert after == before


def test_of_several_rewards_the_latest_observed_counts_not_the_last_to_arrive(
    lake: Lake, log: LogDouble
) -> None:
    log.land(T.events())
    log.land(
        [
            T.event(T.reward_body(1.0, later_s=100), seq=10),
            T.event(T.reward_body(0.0, later_s=50), seq=11),
        ]
    )
    assert one(lake, "SELECT reward FROM trajectories") == {"reward": 1.0}
    assert one(lake, "SELECT count(*) AS n FROM rewards") == {"n": 2}


def test_a_superseded_reward_does_not_count_even_when_it_was_observed_later(
    lake: Lake, log: LogDouble
) -> None:
    log.land(T.events())
    wrong = T.event(T.reward_body(1.0, later_s=100), seq=10)
    right = T.event(T.reward_body(0.25, later_s=50, supersedes=wrong.event_id), seq=11)
    log.land([wrong, right])
    assert one(lake, "SELECT reward FROM trajectories") == {"reward": 0.25}


def test_a_successor_without_a_value_retracts_a_reward(lake: Lake, log: LogDouble) -> None:
    log.land(T.events())
    wrong = T.event(T.reward_body(1.0), seq=10)
    log.land([wrong, T.event(T.reward_body(None, supersedes=wrong.event_id), seq=11)])
    assert one(lake, "SELECT reward FROM trajectories") == {"reward": None}


def test_the_outcome_dimension_goes_before_any_other(lake: Lake, log: LogDouble) -> None:
    log.land(T.events())
    log.land(
        [
            T.event(T.reward_body(0.75, later_s=10), seq=10),
            T.event(T.reward_body(0.1, later_s=99, dimension="politeness"), seq=11),
        ]
    )
    assert one(lake, "SELECT reward FROM trajectories") == {"reward": 0.75}


def test_a_reward_of_another_attempt_or_tenant_does_not_join(lake: Lake, log: LogDouble) -> None:
    log.land(T.events())
    log.land([replace(T, attempt=1).event(T.reward_body(1.0), seq=0)])
    log.land([replace(T, tenant="rival").event(T.reward_body(1.0), seq=0)])
    assert one(
        lake, "SELECT reward FROM trajectories WHERE tenant_id = 'acme' AND attempt = 0"
    ) == {"reward": None}


def test_steps_hold_observation_action_outcome_and_the_reward_of_their_step_or_events(
    lake: Lake, log: LogDouble
) -> None:
    events = T.events()
    log.land(events)
    call = next(event for event in events if event.kind == "action" and event.step == 1)
    at = T.start + timedelta(seconds=9)
    log.land(
        [
            T.event(
                Reward(
                    target_kind="step", target_step=0, value=0.5, source_name="s", observed_at=at
                ),
                seq=10,
            ),
            T.event(
                Reward(
                    target_kind="event",
                    target_event_id=call.event_id,
                    value=-1.0,
                    source_name="s",
                    observed_at=at,
                ),
                seq=11,
            ),
        ]
    )
    with connect(lake=lake) as connection:
        rows = connection.sql("SELECT * FROM steps ORDER BY step").dicts()
    assert [row["reward"] for row in rows] == [0.5, -1.0]
    assert rows[0]["observation"][0]["parts"][0]["text"] == "where is my order 0"
    assert [action["type"] for action in rows[0]["actions"]] == ["generation", "tool_call"]
    assert rows[0]["outcomes"][0]["result"] == "ok"
    assert one(lake, "SELECT reward FROM trajectories") == {"reward": None}


def test_a_trajectory_without_an_end_is_open(lake: Lake, log: LogDouble) -> None:
    log.land(T.events()[:3])
    assert one(lake, "SELECT status, ended_at FROM trajectories") == {
        "status": "open",
        "ended_at": None,
    }


def test_one_ineligible_event_makes_the_trajectory_ineligible_and_says_why(
    lake: Lake, log: LogDouble
) -> None:
    log.land(T.events()[:-1])
    log.land([replace(T, eligible=False).events()[-1]])
    assert one(
        lake, "SELECT training_eligible AS e, eligibility_reason AS r FROM trajectories"
    ) == {
        "e": False,
        "r": "consent_withdrawn",
    }


def test_a_task_is_held_out_by_its_id_alone_in_nested_shares(lake: Lake) -> None:
    tasks = [f"order-{n}" for n in range(2000)]
    expected = [int(hashlib.sha256(task.encode()).hexdigest()[:8], 16) < 2**30 for task in tasks]
    assert 450 < sum(expected) < 550
    listed = ", ".join(f"('{task}')" for task in tasks)
    with connect(lake=lake) as connection:
        rows = connection.sql(
            "SELECT held_out(task), held_out(task, share := 0.1), held_out(task, share := 1) "
            f"FROM (VALUES {listed}) t(task)"
        ).rows()
    assert [quarter for quarter, _, _ in rows] == expected
    assert all(quarter for quarter, tenth, _ in rows if tenth)
    assert all(everything for _, _, everything in rows)


def test_without_a_task_nothing_is_held_out(lake: Lake) -> None:
    assert one(lake, "SELECT held_out(NULL) AS found") == {"found": False}


def test_a_trajectory_that_was_idle_is_open_again_when_it_goes_on(
    lake: Lake, log: LogDouble
) -> None:
    events = T.events()
    end = len(events) - 1
    idle = replace(events[end], body=TrajectoryEnded(status="idle"))
    log.land([*events[:end], idle])
    status = "SELECT status, ended_at IS NULL AS no_end FROM trajectories"
    assert one(lake, status) == {"status": "idle", "no_end": False}
    log.land([T.event(T.reward_body(1.0), seq=end + 1)])
    assert one(lake, status)["status"] == "idle"
    log.land([T.event(events[2].body, seq=end + 2)])
    assert one(lake, status) == {"status": "open", "no_end": True}
    log.land([T.event(TrajectoryEnded(status="idle"), seq=end + 3)])
    assert one(lake, status) == {"status": "idle", "no_end": False}
