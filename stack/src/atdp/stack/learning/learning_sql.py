"""The split into sessions to train on and sessions that evaluate, as SQL over `trajectories`.

A task is held out as a whole, with every attempt at it. Where no task is named, the session is; the
trajectories of its sub-agents go with it. A trajectory without both stands for itself. The split
depends on these ids alone and never changes.
"""

from collections.abc import Sequence

from atdp.lakehouse import sql_literal
from atdp.stack.learning.settings import LearningSettings


def held_out_sql(settings: LearningSettings) -> str:
    """Return the condition for what is held out."""
    unit = "coalesce(task_id, session_id, trajectory_id)"
    return f"held_out({unit}, share := {settings.hold_out!r})"


def training_sql(settings: LearningSettings) -> str:
    """Return the condition for what is trained on."""
    return _all(settings.where, f"NOT {held_out_sql(settings)}")


def evaluation_sql(
    settings: LearningSettings, *, tenants: Sequence[str], versions: Sequence[str]
) -> str:
    """Return the condition for what evaluates: held out, served to `tenants` by `versions`."""
    return _all(
        settings.where,
        held_out_sql(settings),
        f"tenant_id IN ({', '.join(map(sql_literal, tenants))})",
        f"weight_version IN ({', '.join(map(sql_literal, versions))})",
    )


def _all(*conditions: str | None) -> str:
    return " AND ".join(f"(\n{condition}\n)" for condition in conditions if condition)
