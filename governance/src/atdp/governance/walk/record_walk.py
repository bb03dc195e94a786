"""The walk over an event record: governs each string by its place in the schema."""

from collections.abc import Sequence
from typing import Any, Final

from atdp.governance.event_paths import event_paths
from atdp.governance.learned.learned_set import LearnedEntry
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.replacements import Replacement, merge_replacements
from atdp.governance.walk.string_fields import (
    FieldClass,
    StringField,
    is_digest,
    string_field,
)
from atdp.governance.walk.string_governor import GovernedString, StringGovernor

FIELD: Final = "FIELD"
"""Stands for an entity in the findings of a place that the policy empties."""
_SUBJECT_ENTITY: Final = "DATA_SUBJECT"


class RecordWalk:
    """Governs one record. The returned mapping shares unchanged values with the original.

    Lists of numbers (token ids, log-probabilities) are not strings. For those that the policy does
    not drop, `atdp.governance.token_fidelity` decides.
    """

    def __init__(self, policy: CompiledPolicy, strings: StringGovernor, trajectory: str) -> None:
        self._policy = policy
        self._strings = strings
        self._trajectory = trajectory
        self._replacements: list[Replacement] = []
        self._entries: list[LearnedEntry] = []

    def run(self, record: dict[str, Any]) -> tuple[dict[str, Any], tuple[Replacement, ...]]:
        """Return the governed record and what was replaced in it.

        Raises:
            Refusal, EventDropped: the event must not pass, or the policy drops it.
        """
        governed = {
            name: value if value is None else self._visit(value, name)
            for name, value in record.items()
        }
        return governed, merge_replacements(self._replacements)

    @property
    def entries(self) -> Sequence[LearnedEntry]:
        """The values that the record teaches, in the order of its fields."""
        return self._entries

    def _visit(self, value: Any, path: str) -> Any:
        if self._policy.drops(path):
            return self._emptied(value, path)
        if isinstance(value, str):
            return self._string(value, path) if value else value
        if isinstance(value, dict):
            return {
                key: item if item is None else self._visit(item, f"{path}.{key}")
                for key, item in value.items()
            }
        if isinstance(value, list):
            return self._list(value, path)
        return value

    def _list(self, value: list[Any], path: str) -> list[Any]:
        if not value or isinstance(value[0], int | float):
            return value
        items = [self._visit(item, path) for item in value]
        # The schema allows no null in a list of strings: removed strings leave no entry.
        return [item for item in items if item is not None] if isinstance(value[0], str) else items

    def _emptied(self, value: Any, path: str) -> Any:
        place = event_paths().get(path)
        # A field that only a later schema version has can be null for every reader.
        empty = None if place is None else place.empty
        if value != empty:
            finding_path = string_field(path).finding_path
            self._replacements.append(Replacement(finding_path, FIELD, "drop_field", 1))
        return empty

    def _string(self, value: str, path: str) -> str | None:
        field = string_field(path)
        if not field.scanned:
            return value
        match field.kind:
            case FieldClass.DIGEST if is_digest(value):
                return value
            case FieldClass.SUBJECT:
                self._entries += self._strings.subject_entries(value)
                return self._strings.pseudonym(_SUBJECT_ENTITY, value)
            case FieldClass.TEXT:
                return self._noted(field, self._strings.text(value, self._trajectory))
            case _:
                return self._noted(field, self._strings.identifier(value))

    def _noted(self, field: StringField, governed: GovernedString) -> str | None:
        """Add the string's replacements to the event's, and return its text."""
        self._entries += governed.entries
        if governed.replacements:
            self._replacements += [
                Replacement(field.finding_path + each.path, each.entity, each.operator, each.count)
                for each in governed.replacements
            ]
        return "" if governed.text is None and field.required else governed.text
