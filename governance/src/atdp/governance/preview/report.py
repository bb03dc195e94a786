"""The report of a preview: plain values, which become text, JSON or a page.

Without the part `raw` of its examples a report holds no text of any event: paths, as audit records
show them, names of entities and rules, and numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from atdp.governance.policy.document import PolicyDocument
from atdp.governance.preview.samples import SampleSource
from atdp.governance.preview.shares import Share

Direction: TypeAlias = Literal["more", "fewer", "other"]


@dataclass(frozen=True, slots=True)
class PolicyIdentity:
    """The identity of a policy."""

    id: str
    version: int
    hash: str

    @classmethod
    def of(cls, document: PolicyDocument) -> "PolicyIdentity":
        """Return the identity of a document."""
        return cls(document.metadata.id, document.metadata.version, document.content_hash)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRow:
    """The records with one pair of decisions."""

    active: str
    draft: str
    records: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasonRow:
    """The records that are set aside or dropped for one reason."""

    reason: str
    active: int
    draft: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CountRow:
    """Values of one entity, or at one path, that each side replaces.

    `more`, `fewer`, `same`: the records in which the draft replaces more of them than the active
    policy, fewer, or as many. Records that one side sets aside are not among them.
    """

    name: str
    active: int
    draft: int
    more: int
    fewer: int
    same: int
    operators: str = ""
    """The operators of both sides, for example `surrogate → mask`."""

    @property
    def change(self) -> int:
        """The values that the draft replaces beyond those of the active policy."""
        return self.draft - self.active

    @property
    def is_same(self) -> bool:
        """True when both sides replace as many values in every record."""
        return not (self.more or self.fewer)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleRow:
    """The records in which a rule found a value of an entity that counts."""

    entity: str
    rule: str
    active: int
    draft: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CostRow:
    """CPU time per kilobyte (1000 bytes) of raw records; None where there are no bytes."""

    active_us: float | None
    draft_us: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingChange:
    """The trajectories of the sample that may be used for training under each side.

    A trajectory may when each of its sampled events passes and is stamped eligible.
    """

    active: int
    draft: int
    loses: Share
    gains: Share
    obstacles: Sequence[ReasonRow]
    """Obstacles, by the first one of each trajectory that may not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FidelityChange:
    """The token fidelity of model calls under each side."""

    pairs: Sequence[OutcomeRow]
    changes: Share
    loses_exact: Share
    gains_exact: Share


@dataclass(frozen=True, kw_only=True, slots=True)
class RawExample:
    """The strings of an example, cut to the place where they differ; None: removed."""

    before: str | None
    active: str | None
    draft: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A string that the two sides govern differently.

    `active` and `draft` hold names of entities in place of values, and `…` in place of all other
    text. `raw` is present for callers that may see raw data.
    """

    tenant: str
    kind: str
    path: str
    direction: Direction
    entities: Sequence[str]
    active: str
    draft: str
    raw: RawExample | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleComparison:
    """Both sides on the sample of one source."""

    source: SampleSource
    in_window: int
    trajectories: int
    begun_before: int
    """Trajectories that began before the window: what they taught before is not known."""
    records: int
    raw_bytes: int
    outcomes: Sequence[OutcomeRow]
    reasons: Sequence[ReasonRow]
    entities: Sequence[CountRow]
    paths: Sequence[CountRow]
    paths_left_out: int
    rules: Sequence[RuleRow]
    explained: int
    """Trajectories that differ and whose rules and strings were looked at."""
    differing: int
    """Trajectories that differ."""
    cost: CostRow
    training: TrainingChange
    fidelity: FidelityChange
    examples: Sequence[Example]

    not_compared: Mapping[str, int]
    """Records that were drawn and that neither side can govern, by reason: they are signed with
    another tenant's key, or cannot be authenticated."""
    unchanged: int
    """Records with the same decision, replacements and token fidelity."""

    @property
    def is_part(self) -> bool:
        """True when trajectories of the window were left out."""
        return self.trajectories < self.in_window

    @property
    def changed(self) -> int:
        """The records that are governed differently."""
        return self.records - self.unchanged

    @property
    def remark(self) -> str:
        """A sentence about the records that are not compared; empty: there are none."""
        if not self.not_compared:
            return ""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.not_compared.items())
        return (
            "Records that were drawn and are not compared, because another tenant's key signed "
            f"them or their sender is not known: {reasons}."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewReport:
    """A preview of a draft."""

    draft: PolicyIdentity
    active: Sequence[PolicyIdentity]
    without_policy: Sequence[str]
    """Tenants of the samples that have no active policy: all of theirs is quarantined now."""
    tenants: Sequence[str]
    kinds: Sequence[str]
    since: datetime
    until: datetime
    trajectories: int | None
    """The size asked for; None: all of the window."""
    seed: int
    made_at: datetime
    engine: str
    raw_shown: bool
    samples: Sequence[SampleComparison]

    def to_json(self) -> dict[str, Any]:
        """Return the report as values of JSON; times in ISO 8601."""
        document = asdict(self)
        for name in ("since", "until", "made_at"):
            document[name] = document[name].isoformat()
        return document
