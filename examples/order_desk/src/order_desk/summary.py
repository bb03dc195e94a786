"""The result of the demo: a value for `summary.json`, the terminal and `report.html`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields as dataclass_fields
from pathlib import Path
from typing import Any, Self

from atdp.runtime import write_durably
from order_desk.candidates import Candidate
from order_desk.evidence import Evidence
from order_desk.rate import Rate, is_at_least
from order_desk.settings import MODEL, WITHDRAWN, DemoSettings
from order_desk.uplift import Uplift


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The results of the steps that need the running stack."""

    logged_success: float
    """Share of the clerks' conversations that ended right."""
    before: Rate
    after: Rate
    traffic: Mapping[str, Rate]
    """Phase → success of all its sessions, in order."""
    candidates: Sequence[Candidate]
    failures: Sequence[str]
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(DemoOutcome):
    """The outcome with the home, the settings, and the time and memory that it took."""

    home: Path
    settings: DemoSettings
    peak_bytes: int
    at_peak: Mapping[str, int]
    wall_seconds: float
    step_seconds: Mapping[str, float]

    @classmethod
    def of(cls, outcome: DemoOutcome, **fields: Any) -> Self:
        """Return the summary of an outcome; `fields` are the fields that it adds."""
        shared = {each.name: getattr(outcome, each.name) for each in dataclass_fields(outcome)}
        return cls(**shared, **fields)

    @property
    def live(self) -> str:
        """The version that is live at the end."""
        return self.evidence.lineage[0].version

    @property
    def promoted(self) -> str | None:
        """The version promoted last; None when no canary was."""
        promoted = [candidate.version for candidate in self.candidates if candidate.promoted]
        return promoted[-1] if promoted else None

    @property
    def uplift(self) -> Uplift | None:
        """The measured difference on fresh tasks, after minus before."""
        return Uplift.between(self.after, self.before)

    @property
    def _is_shown_better(self) -> bool:
        return self.promoted is not None and self.uplift is not None and self.uplift.lower > 0

    @property
    def promises(self) -> dict[str, bool]:
        """The promises that the demo checks, with true for each that was kept."""
        accounting = self.evidence.accounting
        return {
            "success at least doubled on fresh tasks": is_at_least(self.after, 2, self.before),
            "every emitted event has exactly one fate": accounting.is_balanced,
            "no raw value is left behind the gate": self.evidence.leaks.raw_values_left == 0,
            f"nothing of {WITHDRAWN} was trained on": self.evidence.withdrawn_rows_trained == 0,
            "the gate refused the bad candidate": any(
                c.deliberately_bad and c.verdict in ("FAIL", "INCONCLUSIVE")
                for c in self.candidates
            ),
            "the promoted weights are shown better than the first": self._is_shown_better,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; numbers that do not exist are null."""
        evidence, accounting = self.evidence, self.evidence.accounting
        return {
            "success_before": self.before.value,
            "success_after": self.after.value,
            "events_emitted": accounting.events_emitted,
            "events_landed": accounting.events_landed,
            "quarantined": accounting.quarantined,
            "dropped_by_policy": accounting.dropped_by_policy,
            "duplicates": accounting.duplicates,
            "lost": accounting.lost,
            "surplus": accounting.surplus,
            "contradictory": accounting.contradictory,
            "raw_records": accounting.raw_records,
            "withdrawn_rows_trained": evidence.withdrawn_rows_trained,
            "trajectories_trained": evidence.trajectories_trained,
            "raw_values_left": evidence.leaks.raw_values_left,
            "rounds": [candidate.to_json() for candidate in self.candidates],
            "wall_seconds": round(self.wall_seconds, 1),
            "promises": self.promises,
            "model": MODEL,
            "promoted": self.promoted,
            "live": self.live,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "uplift": None if self.uplift is None else self.uplift.to_json(),
            "logged_success": self.logged_success,
            "traffic": {phase: rate.to_json() for phase, rate in self.traffic.items()},
            "failed_sessions": list(self.failures),
            "emitted_by_channel": evidence.emitted_by_channel,
            "emitted_by_tenant": evidence.emitted_by_tenant,
            "leak_search": asdict(evidence.leaks),
            "findings": evidence.findings,
            "quarantine": evidence.quarantine,
            "not_trainable": evidence.ineligible,
            "by_tenant_and_version": evidence.by_tenant_and_version,
            "lineage": [asdict(ancestor) for ancestor in evidence.lineage],
            "release_history": [asdict(decision) for decision in evidence.release_history],
            "peak_memory_bytes": self.peak_bytes,
            "memory_at_peak_bytes": dict(self.at_peak),
            "step_seconds": {
                title: round(seconds, 1) for title, seconds in self.step_seconds.items()
            },
            "seed": self.settings.seed,
            "home": str(self.home),
        }

    def write(self, file: Path) -> None:
        """Write `summary.json`."""
        text = json.dumps(self.to_json(), indent=1, default=str, allow_nan=False) + "\n"
        write_durably(file, text)
