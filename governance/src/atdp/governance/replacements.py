"""Replacements: the account of what governance took out of an event, and its form in records."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_REST: Final = "…"
"""Path under which replacements are added up that have no entry of their own."""
_MAX_PLACES: Final = 500
_PATH_CHARS: Final = 300
"""Longest path. A path repeats the keys of nested JSON, up to 200 levels of them; without this
limit the findings of one event reached 27 MB."""
_PATH_END_CHARS: Final = 60
_FINDING_BYTES: Final = 60
"""Approximate size of entity, operator and count of one finding."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The number of values of one entity that one operator replaced at one place.

    `path` holds governed keys only. It is relative to the string while the string is walked, and
    begins with `$` in an event's account.
    """

    path: str
    entity: str
    operator: str
    count: int


def merge_replacements(replacements: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Return the replacements with equal places added up, sorted."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in replacements:
        counts[each.path, each.entity, each.operator] += each.count
    return sorted_replacements(counts)


def sorted_replacements(counts: Counter[tuple[str, str, str]]) -> tuple[Replacement, ...]:
    """Return the replacements that `counts` holds by path, entity and operator, sorted."""
    return tuple(
        Replacement(path, entity, operator, count)
        for (path, entity, operator), count in sorted(counts.items())
    )


def finding_records(
    replacements: tuple[Replacement, ...], *, limit_bytes: int = 200_000
) -> list[dict[str, Any]]:
    """Return replacements as the schemas' findings, in at most about `limit_bytes`.

    Long paths are cut in the middle. Beyond `limit_bytes`, or 500 places, the rest is added up by
    entity and operator under the path `…`.
    """
    shortened = merge_replacements(
        Replacement(_shortened(each.path), each.entity, each.operator, each.count)
        for each in replacements
    )
    kept = 0
    for each in shortened[:_MAX_PLACES]:
        limit_bytes -= len(each.path.encode()) + _FINDING_BYTES
        if limit_bytes < 0:
            break
        kept += 1
    rest = merge_replacements(
        Replacement(_REST, each.entity, each.operator, each.count) for each in shortened[kept:]
    )
    return [
        {"path": each.path, "entity": each.entity, "operator": each.operator, "count": each.count}
        for each in (*shortened[:kept], *rest)
    ]


def _shortened(path: str) -> str:
    if len(path) <= _PATH_CHARS:
        return path
    return f"{path[: _PATH_CHARS - _PATH_END_CHARS - 1]}…{path[-_PATH_END_CHARS:]}"
