"""One record with its outcomes on both sides, and tables of such pairs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from atdp.governance.policy_store import NO_POLICY
from atdp.governance.preview.report import OutcomeRow, ReasonRow
from atdp.governance.preview.samples import DrawnRecord
from atdp.governance.preview.trial import TrialOutcome

_NOT_GOVERNED: Final = "not governed"


@dataclass(frozen=True, slots=True)
class OutcomePair:
    """One record with its outcomes under the active policy and under the draft."""

    record: DrawnRecord
    active: TrialOutcome
    draft: TrialOutcome

    @property
    def is_comparable(self) -> bool:
        """True when the values that both sides replace can be compared.

        A record that one side sets aside has none there. Where the tenant has no policy yet, all
        that the draft replaces is new.
        """
        no_policy = self.active.reason == NO_POLICY
        return self.draft.passes and (self.active.passes or no_policy)

    @property
    def is_same(self) -> bool:
        """True when both sides govern the record in the same way."""
        a, d = self.active, self.draft
        return (
            a.decision == d.decision
            and a.reason == d.reason
            and a.replacements == d.replacements
            and token_fidelity(a) == token_fidelity(d)
        )


def outcome_rows(pairs: Iterable[tuple[str, str]]) -> Sequence[OutcomeRow]:
    """Count pairs of outcomes, of the active policy and of the draft."""
    return [
        OutcomeRow(active=active, draft=draft, records=records)
        for (active, draft), records in sorted(Counter(pairs).items())
    ]


def reason_rows(pairs: Sequence[tuple[str | None, str | None]]) -> Sequence[ReasonRow]:
    """Count the reasons on each side; None is no reason."""
    active = Counter(before for before, _ in pairs if before)
    draft = Counter(after for _, after in pairs if after)
    return [
        ReasonRow(reason=reason, active=active[reason], draft=draft[reason])
        for reason in sorted(active.keys() | draft.keys())
    ]


def token_fidelity(outcome: TrialOutcome) -> str:
    """Return the token fidelity of a model call; the word for none where it does not pass."""
    if not outcome.passes:
        return _NOT_GOVERNED
    return str(outcome.stamp["token_fidelity"])
