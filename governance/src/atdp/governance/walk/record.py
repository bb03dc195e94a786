"""The walk over an event record: which string is governed how, by its place in the schema."""

from typing import Any

from atdp.governance.event_paths import event_paths
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.walk.fields import KEYED_DIGEST, FieldClass, Place, is_digest, place_of
from atdp.governance.walk.strings import Found, Governed, StringGovernor, merged

FIELD = "FIELD"
"""Stands for an entity in the findings of a place that the policy empties."""
_SUBJECT_ENTITY = "DATA_SUBJECT"


class RecordWalk:
    """Governs one record in place of copies: the returned mapping shares what did not change.

    Lists of numbers (token ids, log-probabilities) are not strings; `atdp.governance.fidelity`
    decides on those that the policy does not drop.
    """

    def __init__(self, policy: CompiledPolicy, strings: StringGovernor, trajectory: str) -> None:
        self._policy = policy
        self._strings = strings
        self._trajectory = trajectory
        self._found: list[Found] = []

    def run(self, record: dict[str, Any]) -> tuple[dict[str, Any], tuple[Found, ...]]:
        """The governed record and what was replaced in it.

        Raises:
            Refusal, EventDropped: the event must not pass, or the policy drops it.
        """
        governed = {
            name: value if value is None else self._visit(value, name)
            for name, value in record.items()
        }
        return governed, merged(self._found)

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
            if not value or isinstance(value[0], int | float):
                return value
            items = [self._visit(item, path) for item in value]
            return (
                [item for item in items if item is not None] if isinstance(value[0], str) else items
            )
        return value

    def _emptied(self, value: Any, path: str) -> Any:
        place = event_paths().get(path)
        # A field that only a later schema has can be left out by every reader.
        empty = None if place is None else place.empty
        if value != empty:
            self._found.append(Found(place_of(path).shown, FIELD, "drop_field", 1))
        return empty

    def _string(self, value: str, path: str) -> str | None:
        place = place_of(path)
        if not place.scanned:
            return value
        match place.kind:
            case FieldClass.DIGEST if is_digest(value):
                return value
            case FieldClass.CONTEXT_DIGEST if KEYED_DIGEST.fullmatch(value):
                return value
            case FieldClass.CONTEXT_DIGEST if is_digest(value):
                return f"keyed:{self._strings.seal('context_hash', value)}"
            case FieldClass.SUBJECT:
                return self._strings.pseudonym(_SUBJECT_ENTITY, value)
            case FieldClass.TEXT:
                return self._noted(place, self._strings.text(value, self._trajectory))
            case _:
                return self._noted(place, self._strings.identifier(value))

    def _noted(self, place: Place, governed: Governed) -> str | None:
        if governed.found:
            self._found += [
                Found(place.shown + one.path, one.entity, one.operator, one.count)
                for one in governed.found
            ]
        return "" if governed.text is None and place.required else governed.text
