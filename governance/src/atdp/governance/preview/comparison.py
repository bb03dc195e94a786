"""The comparison of two trials on one sample."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.preview.examples import ExampleChoice
from atdp.governance.preview.outcome_pairs import OutcomePair, outcome_rows, reason_rows
from atdp.governance.preview.replacement_counts import ReplacementCounts, by_entity, by_path
from atdp.governance.preview.report import CostRow, RuleRow, SampleComparison
from atdp.governance.preview.samples import DrawnTrajectory, Sample
from atdp.governance.preview.training_effects import fidelity_change, training_change
from atdp.governance.preview.trial import PolicyTrial, TrialOutcome, TrialPolicies
from atdp.governance.preview.trial_home import TrialHome
from atdp.runtime import UNKNOWN_TENANT

MOST_EXPLAINED: Final = 50
"""Trajectories whose rules and strings are looked at. That governs them once more, uncached."""
_MOST_PATHS: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewSides:
    """The policies of both sides, and the home in which they are tried."""

    home: TrialHome
    active: TrialPolicies
    draft: TrialPolicies
    now: datetime


def compare(
    sample: Sample,
    sides: PreviewSides,
    choice: ExampleChoice,
    kinds: frozenset[str] | None,
    progress: Callable[[int, int], None],
) -> SampleComparison:
    """Govern a sample under both sides and return how they differ.

    `progress` is called with the number of trajectories that are done, and of all.

    Raises:
        HomeUnavailable: nothing can be governed now.
    """
    not_compared: Counter[str] = Counter()
    governed = list(_governed(sample, sides, kinds, progress, not_compared))
    pairs = [pair for _, trajectory in governed for pair in trajectory]
    differing = [each for each in governed if not all(pair.is_same for pair in each[1])]
    rules = _explained(differing[:MOST_EXPLAINED], sides, kinds, choice)
    entities, paths = ReplacementCounts(), ReplacementCounts()
    for pair in filter(lambda each: each.is_comparable, pairs):
        entities.add(by_entity(pair.active), by_entity(pair.draft))
        paths.add(by_path(pair.active), by_path(pair.draft))
    path_rows = paths.rows()
    return SampleComparison(
        source=sample.source,
        in_window=sample.in_window,
        trajectories=len(sample.trajectories),
        begun_before=sum(each.begun_before for each in sample.trajectories),
        records=len(pairs),
        not_compared=dict(sorted(not_compared.items())),
        unchanged=sum(pair.is_same for pair in pairs),
        raw_bytes=sum(len(pair.record.raw.value) for pair in pairs),
        outcomes=outcome_rows((pair.active.decision, pair.draft.decision) for pair in pairs),
        reasons=reason_rows([(_set_aside(each.active), _set_aside(each.draft)) for each in pairs]),
        entities=entities.rows(lambda name: _operators(name, sides)),
        paths=path_rows[:_MOST_PATHS],
        paths_left_out=max(0, len(path_rows) - _MOST_PATHS),
        rules=rules,
        explained=min(len(differing), MOST_EXPLAINED),
        differing=len(differing),
        cost=_cost(pairs),
        training=training_change([found for _, found in governed if found], sampled=sample.is_part),
        fidelity=fidelity_change([found for _, found in governed], sampled=sample.is_part),
        examples=choice.chosen(),
    )


def _governed(
    sample: Sample,
    sides: PreviewSides,
    kinds: frozenset[str] | None,
    progress: Callable[[int, int], None],
    not_compared: Counter[str],
) -> Iterator[tuple[DrawnTrajectory, Sequence[OutcomePair]]]:
    for trajectory in sample.trajectories[:1]:
        # Recognizers load their data when they are first used; neither side is to pay for that.
        for side in (sides.active, sides.draft):
            PolicyTrial(sides.home, side).govern(trajectory, sides.now)
    active = PolicyTrial(sides.home, sides.active)
    draft = PolicyTrial(sides.home, sides.draft)
    for done, trajectory in enumerate(sample.trajectories, 1):
        pairs = _pairs(trajectory, active, draft, sides.now, kinds)
        not_compared.update(
            pair.active.reason or "no reason"
            for pair in pairs
            if pair.active.tenant != trajectory.tenant
        )
        yield trajectory, [pair for pair in pairs if _counts(pair, trajectory)]
        progress(done, len(sample.trajectories))


def _pairs(
    trajectory: DrawnTrajectory,
    active: PolicyTrial,
    draft: PolicyTrial,
    now: datetime,
    kinds: frozenset[str] | None,
) -> Sequence[OutcomePair]:
    """Return the records of a trajectory that are of the kinds asked for, with both outcomes."""
    outcomes = zip(
        trajectory.records,
        active.govern(trajectory, now),
        draft.govern(trajectory, now),
        strict=True,
    )
    return [
        OutcomePair(record, before, after)
        for record, before, after in outcomes
        if kinds is None or record.kind in kinds
    ]


def _counts(pair: OutcomePair, trajectory: DrawnTrajectory) -> bool:
    """Return whether a record counts, and its text may be an example.

    A record of another tenant, which its sender put under this trajectory's key, does not.
    """
    return pair.active.tenant in {trajectory.tenant, UNKNOWN_TENANT}


def _explained(
    differing: Sequence[tuple[DrawnTrajectory, Sequence[OutcomePair]]],
    sides: PreviewSides,
    kinds: frozenset[str] | None,
    choice: ExampleChoice,
) -> Sequence[RuleRow]:
    """Count the rules of trajectories that differ, and offer their strings as examples."""
    named = [PolicyTrial(sides.home, side, explains=True) for side in (sides.active, sides.draft)]
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for trajectory, governed in differing:
        every = _pairs(trajectory, named[0], named[1], sides.now, kinds)
        shown = [pair for pair in every if _counts(pair, trajectory)]
        for explained, pair in zip(shown, governed, strict=True):
            for side, outcome in enumerate((explained.active, explained.draft)):
                for rule in outcome.rules:
                    counts[rule][side] += 1
            if not pair.is_same and pair.is_comparable and pair.record.event is not None:
                choice.offer(
                    pair.record,
                    trajectory.tenant,
                    (explained.active.event, explained.draft.event),
                    (pair.active.event, pair.draft.event),
                )
    rows = [
        RuleRow(entity=entity, rule=rule, active=active, draft=draft)
        for (entity, rule), (active, draft) in counts.items()
    ]
    return sorted(rows, key=lambda row: (-abs(row.draft - row.active), row.entity, row.rule))


def _operators(entity: str, sides: PreviewSides) -> str:
    before = _operator_names(entity, sides.active.by_tenant.values())
    after = _operator_names(entity, sides.draft.by_tenant.values())
    return before if before == after else f"{before or 'none'} → {after or 'none'}"


def _operator_names(entity: str, policies: Iterable[CompiledPolicy]) -> str:
    names = {policy.operators[entity].name for policy in policies if entity in policy.operators}
    return ", ".join(sorted(names))


def _set_aside(outcome: TrialOutcome) -> str | None:
    return None if outcome.passes else outcome.reason


def _cost(pairs: Sequence[OutcomePair]) -> CostRow:
    kilobytes = sum(len(pair.record.raw.value) for pair in pairs) / 1000
    if not kilobytes:
        return CostRow(active_us=None, draft_us=None)
    return CostRow(
        active_us=sum(pair.active.cpu_s for pair in pairs) * 1e6 / kilobytes,
        draft_us=sum(pair.draft.cpu_s for pair in pairs) * 1e6 / kilobytes,
    )
