"""Definitions of schedules: what is accepted, and what each error names."""

from typing import Any

import pytest

from atdp.runtime import DocumentError
from atdp.stack.schedules.schedule_definition import ScheduleDefinition, read_schedules

FILE = """
schedules:
  - id: nightly
    cron: "0 3 * * *"
    timezone: Europe/Berlin
    excluded_dates: [2026-12-25]
    model: orderdesk
    window_s: 604800
    tenants: [acme]
    settings: {mode: non_inferiority, margin: 0.02}
    notify:
      - webhook: https://example.com/hooks/atdp
        verdicts: [FAIL, ERROR]
  - id: fresh
    on: judged_trajectories
    count: 500
    model: orderdesk
    candidate: v7
"""


def test_a_file_of_schedules_is_read() -> None:
    nightly, fresh = read_schedules(FILE, where="schedules.yaml")
    assert (nightly.candidate, nightly.baseline) == ("newest-candidate", "live")
    assert (nightly.config.mode, nightly.config.margin) == ("non_inferiority", 0.02)
    assert not nightly.runs_commands
    assert (fresh.on, fresh.count, fresh.cron) == ("judged_trajectories", 500, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cron": None}, "cron or on"),
        ({"on": "external"}, "cron or on"),
        ({"on": "full_moon", "cron": None}, "new_snapshot"),
        ({"id": "Not An Id"}, "id"),
        ({"id": "x" * 39}, "38"),
        ({"timezone": "Mars/Olympus"}, "no time zone"),
        ({"timezone": "../../etc/passwd"}, "no time zone"),
        ({"count": 3}, "judged_trajectories"),
        ({"cron": None, "on": "external", "excluded_dates": ["2026-12-25"]}, "needs cron"),
        ({"dataset": "orders-7", "tenants": ["acme"]}, "has its own filter"),
        ({"candidate": "v1", "baseline": "v1"}, "the same"),
        ({"gates": "/etc/passwd"}, "below the home"),
        ({"gates": "../elsewhere.yaml"}, "below the home"),
        ({"settings": {"marging": 0.1}}, "marging"),
        ({"settings": {"margin": -1}}, "margin must be"),
        ({"settings": {"margin": "much"}}, "margin"),
        ({"notify": [{}]}, "one of them"),
        ({"notify": [{"webhook": "https://a.b", "command": ["x"]}]}, "one of them"),
        ({"notify": [{"webhook": "file:///etc/passwd"}]}, "webhook"),
        ({"catch_up": "some"}, "catch_up"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_field_is_refused_with_a_message_about_it(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ScheduleDefinition(**{"id": "s", "cron": "0 3 * * *", "model": "m", **fields})


def test_a_wrong_file_names_line_and_column() -> None:
    with pytest.raises(DocumentError, match=r"schedules\.yaml:4:"):
        read_schedules(FILE.replace('"0 3 * * *"', "often"), where="schedules.yaml")
    with pytest.raises(DocumentError, match="defined twice: nightly"):
        read_schedules(FILE.replace("id: fresh", "id: nightly"), where="schedules.yaml")
