"""The stamp of governance: the permitted uses of an event, and the values that were replaced."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

ConsentState: TypeAlias = Literal["granted", "withdrawn", "unknown"]
ReplayClass: TypeAlias = Literal["deterministic", "approximate", "non_replayable", "unknown"]
TokenFidelity: TypeAlias = Literal["exact", "context_changed", "spliced", "dropped", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A replacement by governance: its place, kind and count, never the value."""

    path: str
    entity: str
    operator: str
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Governance:
    """The permitted uses of an event.

    `policy_id` is None until governance has decided. Such an event may not be used for anything.

    `learned_version` is the number of values that governance had learned from the trajectory when
    it governed the event; `settled_version` states that all earlier events are governed with at
    least so many. It is -1 where governance knew no earlier event. A trajectory may be used when
    the highest settled version of its events reaches the highest learned version, and only its
    first event has -1.

    `engine` states the versions of the code and detectors, and the digest of the names model, that
    decided. It is None before the gate, and from a gate that did not state it yet.

    `principal` is the key that signed the record that was governed (`key:<id>`), `principal_role`
    its role; the names in the body are claims beside it. `self_reward` stands on judgements that a
    key without the permission `reward` signed: what they count for (`analytics` or `train`).
    """

    classification: str = "unclassified"
    purposes: tuple[str, ...] = ()
    consent: ConsentState = "unknown"
    retention_class: str | None = None
    data_subjects: tuple[str, ...] = ()
    replay_class: ReplayClass = "unknown"
    policy_id: str | None = None
    policy_version: int | None = None
    policy_hash: str | None = None
    governed_at: datetime | None = None
    findings: tuple[Finding, ...] = ()
    training_eligible: bool | None = None
    eligibility_reason: str | None = None
    token_fidelity: TokenFidelity | None = None
    content_hash: str | None = None
    learned_version: int = 0
    settled_version: int = 0
    engine: str | None = None
    principal: str | None = None
    principal_role: str | None = None
    self_reward: str | None = None
