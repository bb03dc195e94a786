"""The comparison of two trials on one sample."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy_store import NO_POLICY
from atdp.governance.preview.examples import ExampleChoice
from atdp.governance.preview.report import (
    CostRow,
    CountRow,
    FidelityChange,
    OutcomeRow,
    ReasonRow,
    RuleRow,
    SampleComparison,
    TrainingChange,
)
from atdp.governance.preview.samples import DrawnRecord, DrawnTrajectory, Sample
from atdp.governance.preview.shares import Share, share
from atdp.governance.preview.trial import PolicyTrial, TrialHome, TrialOutcome, TrialPolicies
from atdp.runtime import UNKNOWN_TENANT

MOST_EXPLAINED: Final = 50
"""Trajectories whose rules and strings are looked at. That governs them twice more, uncached."""
_MOST_PATHS: Final = 60
_EXACT: Final = "exact"
_NOT_GOVERNED: Final = "not governed"


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewSides:
    """The policies of both sides, and the home in which they are tried."""

    home: TrialHome
    active: TrialPolicies
    draft: TrialPolicies
    now: datetime


@dataclass(frozen=True, slots=True)
class _Pair:
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
        a, d = self.active, self.draft
        return (
            a.decision == d.decision
            and a.reason == d.reason
            and a.replacements == d.replacements
            and _fidelity(a) == _fidelity(d)
        )


@dataclass(slots=True)
class _Counts:
    """Values by name under both sides, and the records by how they differ."""

    values: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 5))

    def add(self, active: Counter[str], draft: Counter[str]) -> None:
        for name in active.keys() | draft.keys():
            row = self.values[name]
            before, after = active[name], draft[name]
            row[0] += before
            row[1] += after
            row[2 if after > before else 3 if after < before else 4] += 1

    def rows(self, operators: Callable[[str], str] = lambda _name: "") -> list[CountRow]:
        rows = [
            CountRow(
                name=name,
                active=active,
                draft=draft,
                more=more,
                fewer=fewer,
                same=same,
                operators=operators(name),
            )
            for name, (active, draft, more, fewer, same) in self.values.items()
        ]
        return sorted(rows, key=lambda row: (-abs(row.change), -row.more - row.fewer, row.name))


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
    governed = list(_governed(sample, sides, kinds, progress))
    pairs = [pair for _, trajectory in governed for pair in trajectory]
    differing = [each for each, found in governed if not all(pair.is_same for pair in found)]
    rules = _explained(differing[:MOST_EXPLAINED], sides, kinds, choice)
    entities, paths = _Counts(), _Counts()
    for pair in filter(lambda each: each.is_comparable, pairs):
        entities.add(_by_entity(pair.active), _by_entity(pair.draft))
        paths.add(_by_path(pair.active), _by_path(pair.draft))
    path_rows = paths.rows()
    return SampleComparison(
        source=sample.source,
        in_window=sample.in_window,
        trajectories=len(sample.trajectories),
        begun_before=sum(each.begun_before for each in sample.trajectories),
        records=len(pairs),
        unchanged=sum(pair.is_same for pair in pairs),
        raw_bytes=sum(len(pair.record.raw.value) for pair in pairs),
        outcomes=_pairs_of((pair.active.decision, pair.draft.decision) for pair in pairs),
        reasons=_reasons([(_set_aside(each.active), _set_aside(each.draft)) for each in pairs]),
        entities=entities.rows(lambda name: _operators(name, sides)),
        paths=path_rows[:_MOST_PATHS],
        paths_left_out=max(0, len(path_rows) - _MOST_PATHS),
        rules=rules,
        explained=min(len(differing), MOST_EXPLAINED),
        differing=len(differing),
        cost=_cost(pairs),
        training=_training([found for _, found in governed if found], sampled=sample.is_part),
        fidelity=_fidelity_change([found for _, found in governed], sampled=sample.is_part),
        examples=choice.chosen(),
    )


def _governed(
    sample: Sample,
    sides: PreviewSides,
    kinds: frozenset[str] | None,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[DrawnTrajectory, Sequence[_Pair]]]:
    for trajectory in sample.trajectories[:1]:
        # Recognizers load their data when they are first used; neither side is to pay for that.
        for side in (sides.active, sides.draft):
            PolicyTrial(sides.home, side).govern(trajectory, sides.now)
    active = PolicyTrial(sides.home, sides.active)
    draft = PolicyTrial(sides.home, sides.draft)
    for done, trajectory in enumerate(sample.trajectories, 1):
        yield trajectory, _pairs(trajectory, active, draft, sides.now, kinds)
        progress(done, len(sample.trajectories))


def _pairs(
    trajectory: DrawnTrajectory,
    active: PolicyTrial,
    draft: PolicyTrial,
    now: datetime,
    kinds: frozenset[str] | None,
) -> Sequence[_Pair]:
    """Return the records of a trajectory that count, with both outcomes.

    A record of another tenant, which its sender put under this trajectory's key, is left out.
    """
    outcomes = zip(
        trajectory.records,
        active.govern(trajectory, now),
        draft.govern(trajectory, now),
        strict=True,
    )
    return [
        _Pair(record, before, after)
        for record, before, after in outcomes
        if (kinds is None or record.kind in kinds)
        and before.tenant in {trajectory.tenant, UNKNOWN_TENANT}
    ]


def _explained(
    differing: Sequence[DrawnTrajectory],
    sides: PreviewSides,
    kinds: frozenset[str] | None,
    choice: ExampleChoice,
) -> Sequence[RuleRow]:
    """Count the rules of trajectories that differ, and offer their strings as examples."""
    plain = [PolicyTrial(sides.home, side) for side in (sides.active, sides.draft)]
    named = [PolicyTrial(sides.home, side, explains=True) for side in (sides.active, sides.draft)]
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for trajectory in differing:
        shown = _pairs(trajectory, named[0], named[1], sides.now, kinds)
        real = _pairs(trajectory, plain[0], plain[1], sides.now, kinds)
        for explained, pair in zip(shown, real, strict=True):
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


def _by_entity(outcome: TrialOutcome) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in outcome.replacements:
        counts[each.entity] += each.count
    return counts


def _by_path(outcome: TrialOutcome) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in outcome.replacements:
        counts[each.path] += each.count
    return counts


def _operators(entity: str, sides: PreviewSides) -> str:
    before = _operator_names(entity, sides.active.by_tenant.values())
    after = _operator_names(entity, sides.draft.by_tenant.values())
    return before if before == after else f"{before or 'none'} → {after or 'none'}"


def _operator_names(entity: str, policies: Iterable[CompiledPolicy]) -> str:
    names = {policy.operators[entity].name for policy in policies if entity in policy.operators}
    return ", ".join(sorted(names))


def _pairs_of(pairs: Iterable[tuple[str, str]]) -> Sequence[OutcomeRow]:
    return [
        OutcomeRow(active=active, draft=draft, records=records)
        for (active, draft), records in sorted(Counter(pairs).items())
    ]


def _reasons(pairs: Sequence[tuple[str | None, str | None]]) -> Sequence[ReasonRow]:
    active = Counter(before for before, _ in pairs if before)
    draft = Counter(after for _, after in pairs if after)
    return [
        ReasonRow(reason=reason, active=active[reason], draft=draft[reason])
        for reason in sorted(active.keys() | draft.keys())
    ]


def _set_aside(outcome: TrialOutcome) -> str | None:
    return None if outcome.passes else outcome.reason


def _cost(pairs: Sequence[_Pair]) -> CostRow:
    kilobytes = sum(len(pair.record.raw.value) for pair in pairs) / 1000
    if not kilobytes:
        return CostRow(active_us=None, draft_us=None)
    return CostRow(
        active_us=sum(pair.active.cpu_s for pair in pairs) * 1e6 / kilobytes,
        draft_us=sum(pair.draft.cpu_s for pair in pairs) * 1e6 / kilobytes,
    )


def _training(trajectories: Sequence[Sequence[_Pair]], *, sampled: bool) -> TrainingChange:
    obstacles = [
        (
            _obstacle([pair.active for pair in pairs]),
            _obstacle([pair.draft for pair in pairs]),
        )
        for pairs in trajectories
    ]
    return TrainingChange(
        active=sum(before is None for before, _ in obstacles),
        draft=sum(after is None for _, after in obstacles),
        loses=share([(int(b is None and a is not None), 1) for b, a in obstacles], sampled=sampled),
        gains=share([(int(b is not None and a is None), 1) for b, a in obstacles], sampled=sampled),
        obstacles=_reasons(obstacles),
    )


def _obstacle(outcomes: Sequence[TrialOutcome]) -> str | None:
    """Return the first reason why a trajectory may not be used for training, or None."""
    for outcome in outcomes:
        if not outcome.passes:
            return f"{outcome.decision}: {outcome.reason}"
        if not outcome.stamp["training_eligible"]:
            return str(outcome.stamp["eligibility_reason"])
    return None


def _fidelity_change(trajectories: Sequence[Sequence[_Pair]], *, sampled: bool) -> FidelityChange:
    calls = [
        [
            (_fidelity(pair.active), _fidelity(pair.draft))
            for pair in pairs
            if _is_call(pair.record.event)
        ]
        for pairs in trajectories
    ]

    def counted(counts: Callable[[str, str], bool]) -> Share:
        return share(
            [(sum(counts(*call) for call in each), len(each)) for each in calls], sampled=sampled
        )

    return FidelityChange(
        pairs=_pairs_of(each for pairs in calls for each in pairs),
        changes=counted(lambda before, after: before != after),
        loses_exact=counted(lambda before, after: before == _EXACT != after),
        gains_exact=counted(lambda before, after: before != _EXACT == after),
    )


def _is_call(event: Mapping[str, object] | None) -> bool:
    action = event["action"] if event is not None else None
    return isinstance(action, Mapping) and bool(action["generation"])


def _fidelity(outcome: TrialOutcome) -> str:
    """Return the token fidelity of a model call; the word for none where it does not pass."""
    if not outcome.passes:
        return _NOT_GOVERNED
    return str(outcome.stamp["token_fidelity"])
