"""The envelope fields that a host may give for an event, and the making of rewards and failures."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

from atdp.schemas import (
    Cost,
    Error,
    Governance,
    Link,
    Reward,
    Status,
    TargetKind,
    Usage,
    Versions,
)
from atdp.sdk.errors import UnknownField
from atdp.sdk.json_text import content_text, json_text


class Extras(TypedDict, total=False):
    """Optional fields of the envelope; an absent one is not known.

    An absent `occurred_at` means now, or `ended_at` where that is earlier. `None` means that the
    time is not known.
    """

    occurred_at: datetime | None
    ended_at: datetime | None
    caused_by: Sequence[str] | str
    """Event ids of the causes; text is one id."""
    parent_event_id: str | None
    trace_id: str | None
    span_id: str | None
    parent_span_id: str | None
    source_step_id: str | None
    links: Sequence[Link]
    versions: Versions | None
    usage: Usage | None
    cost: Cost | None
    latency_us: int | None
    status: Status
    metadata: Mapping[str, Any] | None
    ext: Mapping[str, Any] | None
    governance: Governance | None
    step: int


class RewardFields(TypedDict, total=False):
    """The fields of a reward beside its value; see `Reward`."""

    critique: str | None
    label: str | None
    scale: str | None
    range_min: float | None
    range_max: float | None
    dimension: str
    source_name: str
    evaluator_version: str | None
    target_event_id: str | None
    target_step: int | None
    token_start: int | None
    token_end: int | None
    compared_to: str | None
    observed_at: datetime | None
    observed_at_nanos: int | None
    supersedes: str | None


def envelope_fields(given: Extras) -> dict[str, Any]:
    """Return the fields of the envelope, as an event has them, for those that the host gave.

    The step is not among them.

    Raises:
        UnknownField: there is no such field.
    """
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name in _AS_GIVEN:
            fields[name] = value
        elif name == "caused_by":
            fields[name] = (value,) if isinstance(value, str) else tuple(given["caused_by"])
        elif name == "links":
            fields[name] = tuple(given["links"])
        elif name in _AS_JSON:
            fields[f"{name}_json"] = None if value is None else json_text(value)
        elif name != "step":
            refuse_unknown_fields(given, Extras)
    return fields


def are_plain(given: Extras) -> bool:
    """Return whether the fields stand in an event as they were given, and say nothing else."""
    return given.keys() <= _PLAIN


_AS_JSON = frozenset({"metadata", "ext"})
_AS_GIVEN = Extras.__annotations__.keys() - _AS_JSON - {"caused_by", "links", "step"}
_PLAIN = _AS_GIVEN - {"ended_at"}


def refuse_unknown_fields(given: Mapping[str, Any], known: type) -> None:
    """Refuse a field that `known`, a class of fields, does not have: it would be lost unnoticed.

    Raises:
        UnknownField: a field is unknown.
    """
    if unknown := given.keys() - known.__annotations__.keys():
        raise UnknownField(f"{known.__name__} has no field {', '.join(sorted(unknown))}")


def make_reward(value: float | None, fields: RewardFields) -> Reward:
    """Return a reward for the event or the step that `fields` name, else for the trajectory.

    Raises:
        ValueError: there is neither a value nor a critique.
        UnknownField: no reward has one of the fields.
    """
    refuse_unknown_fields(fields, RewardFields)
    if value is None and not fields.get("critique"):
        raise ValueError("a reward needs a value, a critique, or both")
    given: dict[str, Any] = {"source_name": "agent", "observed_at": datetime.now(UTC), **fields}
    return Reward(
        target_kind=_target_kind(fields.get("target_event_id"), fields.get("target_step")),
        value=None if value is None else float(value),
        **given,
    )


def _target_kind(target_event_id: str | None, target_step: int | None) -> TargetKind:
    if target_event_id is not None:
        return "event"
    return "trajectory" if target_step is None else "step"


def failure_of(error: BaseException) -> Error:
    """Return an exception as a structured failure; never raises."""
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - a host's exception class may do anything
        message = f"<str() failed with {type(broken).__name__}>"
    return Error(type=type(error).__name__, message=content_text(message))
