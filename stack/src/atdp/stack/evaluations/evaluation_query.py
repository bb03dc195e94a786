"""Evaluations by SQL: the rows of the table `evaluations`, and the trend of a schedule."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from atdp.lakehouse import connect, sql_literal
from atdp.replay import (
    RecordedEvaluation,
    StoredRuns,
    TrendPoint,
    assess_trend,
    is_repeatable,
    render_trend,
)
from atdp.runtime import Home, write_durably

LISTED = (
    "run_id",
    "occurred_at",
    "verdict",
    "model",
    "candidate",
    "baseline",
    "dataset",
    "difference",
    "difference_lower",
    "difference_upper",
    "schedule",
    "logical_time",
)
"""Columns of a list of evaluations."""
SHORT_ID = 16
"""Digits of a run id in a table; `--repeat` takes them."""


def list_evaluations(
    home: Home, *, schedule: str | None = None, model: str | None = None, last: int = 20
) -> list[dict[str, Any]]:
    """Return the newest evaluations of all tenants, newest first.

    `repeatable` says whether this version of atdp repeats the run, which is stored in this home.

    Raises:
        LakehouseError: the lake cannot be read.
    """
    conditions = [
        f"{column} = {sql_literal(value)}"
        for column, value in (("schedule", schedule), ("model", model))
        if value is not None
    ]
    statement = (
        f"SELECT {', '.join(LISTED)} FROM evaluations "  # noqa: S608 (own columns, literals)
        f"WHERE {' AND '.join(conditions) or 'true'} "
        f"ORDER BY occurred_at DESC, event_id LIMIT {last}"
    )
    with connect(home) as connection:
        rows = connection.all_rows(statement)
    return [{**row, "repeatable": is_repeatable(home, row["run_id"])} for row in rows]


def trend_of(
    home: Home, schedule: str, *, tenant: str | None = None, last: int = 100
) -> tuple[TrendPoint, ...]:
    """Return the newest evaluations of a schedule, oldest first, with what is marked about them.

    With a `tenant`, only those of its trajectories alone.

    Raises:
        LakehouseError: the lake cannot be read.
    """
    columns = ", ".join(field.name for field in fields(RecordedEvaluation))
    condition = f"schedule = {sql_literal(schedule)}"
    if tenant is not None:
        condition += f" AND tenant_id = {sql_literal(tenant)}"
    statement = (
        f"SELECT {columns} FROM evaluations WHERE {condition} "  # noqa: S608 (own columns, literals)
        f"ORDER BY coalesce(logical_time, occurred_at) DESC, event_id DESC LIMIT {last}"
    )
    with connect(home) as connection:
        rows = connection.all_rows(statement)
    return assess_trend([RecordedEvaluation.from_row(row) for row in reversed(rows)])


def write_trend(home: Home, schedule: str, points: tuple[TrendPoint, ...], page: Path) -> None:
    """Write the trend page; reports that are stored in this home are linked relative to it."""
    runs, folder = StoredRuns.of(home), page.resolve().parent
    reports = {point.row.run_id: runs.page(point.row.run_id) for point in points}
    links = {
        run_id: Path(os.path.relpath(report, folder)).as_posix()
        for run_id, report in reports.items()
        if report.exists()
    }
    write_durably(page, render_trend(schedule, points, links))
