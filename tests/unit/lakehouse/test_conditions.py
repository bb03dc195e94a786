"""A condition over trajectories is checked without a lake, and the check reads and runs nothing."""

import pytest

from atdp.lakehouse import condition_problems


@pytest.mark.parametrize(
    "condition",
    [
        "reward IS NOT NULL",
        "started_at > now() - INTERVAL '3 days' -- and no later",
        "held_out(task_id, 0.2)",
        "EXISTS (SELECT 1 FROM events WHERE kind = 'reward')",
        "(SELECT count(*) FROM range(1000000000000)) > 1",  # it would take hours
    ],
)
def test_a_condition_over_the_columns_of_trajectories_has_no_problem(condition: str) -> None:
    assert condition_problems([condition]) == {}


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("rewrd > 1", 'Referenced column "rewrd" not found in FROM clause! Candidate bindings:'),
        ("reward >", "syntax error"),
        ("count(*) > 1", "cannot contain aggregates"),
        ("nosuch(reward)", "nosuch does not exist"),
        ("true); DROP VIEW events; --", "syntax error"),
        ("true); DROP VIEW events; SELECT (true", "one SELECT statement at a time"),
        ("(SELECT count(*) FROM read_text('/etc/hostname')) > 0", "Cannot access file"),
    ],
)
def test_a_wrong_condition_has_a_problem_of_one_line(condition: str, problem: str) -> None:
    right = "reward > 0"
    [(wrong, text)] = condition_problems([condition, right]).items()
    assert wrong == condition
    assert problem in text
    assert "\n" not in text
