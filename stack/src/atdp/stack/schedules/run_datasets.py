"""The datasets that the runs of a schedule pinned: their removal after the time that it names.

A dataset keeps its snapshots in the lake for good. Every run without a `dataset` pins one, and each
snapshot that is kept makes every commit to the lake slower, so a schedule may limit their age.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from atdp.lakehouse import Dataset, Lake, load_dataset, remove_dataset
from atdp.stack.schedules.run_order import before_sql
from atdp.stack.schedules.schedule_definition import ScheduleDefinition

_MOMENT = r"(?P<day>\d{8})t(?P<time>\d{6})(\.(?P<fraction>\d{6}))?z"


def remove_old_datasets(
    lake: Lake, definition: ScheduleDefinition, now: datetime, *, but: str
) -> list[str]:
    """Remove what runs pinned longer ago than the schedule keeps it; returns the names.

    The dataset `but`, which is that of the run at work, stays.

    Raises:
        DatasetError: one of them was changed, or a table changes too often.
        OSError: a manifest cannot be moved.
    """
    if definition.keep_datasets_s is None:
        return []
    since = now - timedelta(seconds=definition.keep_datasets_s)
    pinned = _pinned(lake, definition)
    old = [each.name for each in pinned if _created(each) < since and each.name != but]
    for name in old:
        remove_dataset(lake, name)
    return old


def _pinned(lake: Lake, definition: ScheduleDefinition) -> Iterator[Dataset]:
    """Yield the datasets whose name and condition are those of a run of the schedule."""
    pattern = re.compile(rf"{re.escape(definition.id)}\.{_MOMENT}")
    for file in sorted(lake.home.datasets.glob(f"{definition.id}.*.json")):
        named = pattern.fullmatch(file.stem)
        if named is not None:
            text = named["day"] + named["time"] + (named["fraction"] or "000000")
            moment = datetime.strptime(text, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
            dataset = load_dataset(lake, file.stem)
            if dataset.where.startswith(before_sql(moment)):
                yield dataset


def _created(dataset: Dataset) -> datetime:
    return datetime.fromisoformat(dataset.created_at)
