"""Every state that any sequence of commands can reach, walked to the end: nobody is live without its gate.

The witness is kept by the test from the commands alone, not from the decider's own state.
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from atdp.control import CanaryCounts, CanaryPolicy, DecisionRefused
from atdp.control.commands import (
    Bootstrap,
    Command,
    Observe,
    Promote,
    RaiseShare,
    RecordGate,
    Register,
    Resume,
    RollBack,
    StartCanary,
)
from atdp.control.decider import decide
from atdp.control.events import (
    Bootstrapped,
    CanaryStarted,
    CandidateRejected,
    GateRecorded,
    LiveRolledBack,
    Promoted,
)
from atdp.control.state import ReleaseStage, ReleaseState, evolve
from atdp.replay import Verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = CanaryPolicy(min_sessions=10)
GOOD = CanaryCounts(
    canary_sessions=400, canary_judged=400, canary_successes=390,
    stable_sessions=400, stable_judged=400, stable_successes=100,
)  # fmt: skip
BAD = CanaryCounts(
    canary_sessions=400, canary_judged=400, canary_successes=100,
    stable_sessions=400, stable_judged=400, stable_successes=390,
)  # fmt: skip
AT_LAST_STEP = replace(GOOD, canary_sessions=1600, canary_judged=1600, canary_successes=1560)
SKEWED = replace(GOOD, stable_sessions=4000)


def gate(
    version: str, *, verdict: Verdict, tenants: tuple[str, ...], baseline: str = "v1", sha: str = ""
) -> RecordGate:
    return RecordGate(
        gate=GateRecorded(
            version=version,
            weights_sha256=sha or f"sha-{version}",
            baseline=baseline,
            verdict=verdict,
            reason_codes=("because",),
            report_sha256=f"{version}-{verdict}-{'+'.join(tenants)}-{baseline}-{sha}",
            run_id="run",
            dataset="d",
            snapshots={},
            policy_versions=(),
            tenants=tenants,
            predicted_reward=None,
            decided_at=NOW,
        )
    )


COMMANDS: tuple[Command, ...] = (
    Bootstrap(model="m", tenants=("a", "b"), version="v1", weights_sha256="sha-v1", reason="first"),
    Register(version="v2", weights_sha256="sha-v2"),
    Register(version="v3", weights_sha256="sha-v3"),
    gate("v2", verdict=Verdict.PASS, tenants=("a",)),
    gate("v2", verdict=Verdict.PASS, tenants=("b",)),
    gate("v2", verdict=Verdict.INCONCLUSIVE, tenants=("a", "b")),
    gate("v2", verdict=Verdict.FAIL, tenants=("a", "b")),
    gate("v2", verdict=Verdict.PASS, tenants=("a", "b"), sha="sha-other"),
    gate("v3", verdict=Verdict.PASS, tenants=("a", "b"), baseline="v2"),
    StartCanary(
        version="v2", weights_sha256="sha-v2", steps=(0.5, 0.8), salt="s", policy=POLICY, at=NOW
    ),
    StartCanary(
        version="v3", weights_sha256="sha-v3", steps=(0.5,), salt="s", policy=POLICY, at=NOW
    ),
    Observe(version="v2", counts=GOOD),
    Observe(version="v2", counts=AT_LAST_STEP),
    Observe(version="v2", counts=BAD),
    Observe(version="v2", counts=SKEWED),
    Observe(version="v3", counts=GOOD),
    RaiseShare(version="v2"),
    Resume(version="v2", reason="fixed"),
    Promote(version="v2"),
    Promote(version="v3"),
    RollBack(version="v1", reason="bad"),
    RollBack(version="v2", reason="bad"),
    RollBack(version="v3", reason="bad"),
)


@dataclass(frozen=True)
class Witness:
    """What the test itself saw accepted: last verdict by (version, baseline, tenant), and who may be live."""

    verdicts: frozenset[tuple[str, str, str, Verdict]] = frozenset()
    was_live: tuple[str, ...] = ()


def key(line: ReleaseState, witness: Witness) -> str:
    return repr((replace(line, number=0), sorted(witness.verdicts), witness.was_live))


def test_no_path_leads_to_live_without_a_pass_for_every_tenant() -> None:
    start = (ReleaseState(), Witness())
    seen = {key(*start)}
    queue = deque([start])
    promotions = canaries = transitions = 0
    while queue:
        line, witness = queue.popleft()
        for command in COMMANDS:
            try:
                events = decide(line, command)
            except DecisionRefused:
                continue
            after, seen_by = line, witness
            for event in events:
                transitions += 1
                live_before = after.lineage
                after = evolve(after, event)
                if isinstance(event, GateRecorded):
                    assert event.weights_sha256 == f"sha-{event.version}"
                    kept = {
                        v
                        for v in seen_by.verdicts
                        if not (v[:2] == (event.version, event.baseline) and v[2] in event.tenants)
                    }
                    new = {(event.version, event.baseline, t, event.verdict) for t in event.tenants}
                    seen_by = replace(seen_by, verdicts=frozenset(kept | new))
                if isinstance(event, CandidateRejected):
                    assert after.versions[event.version].stage is ReleaseStage.REJECTED
                if isinstance(event, CanaryStarted):
                    canaries += 1
                    for tenant in ("a", "b"):
                        assert (
                            event.version,
                            live_before[-1],
                            tenant,
                            Verdict.PASS,
                        ) in seen_by.verdicts
                if isinstance(event, Promoted):
                    promotions += 1
                    assert line.canary is not None
                    assert (line.canary.version, line.canary.passed, line.canary.at_last_step) == (
                        event.version,
                        True,
                        True,
                    )
                    for tenant in ("a", "b"):
                        assert (
                            event.version,
                            live_before[-1],
                            tenant,
                            Verdict.PASS,
                        ) in seen_by.verdicts
                if isinstance(event, LiveRolledBack):
                    assert event.to in witness.was_live
                if isinstance(event, Bootstrapped):
                    assert live_before == ()
                if after.lineage and after.lineage[-1] not in seen_by.was_live:
                    seen_by = replace(seen_by, was_live=(*seen_by.was_live, after.lineage[-1]))
            live = [v for v in after.versions.values() if v.stage is ReleaseStage.LIVE]
            assert len(live) == (1 if after.live else 0)
            trying = [
                v
                for v in after.versions.values()
                if v.stage in (ReleaseStage.CANARY, ReleaseStage.PAUSED)
            ]
            assert len(trying) == (1 if after.canary else 0)
            if after.canary and after.live:
                assert after.canary.engine != after.live.engine
            if events and key(after, seen_by) not in seen:
                seen.add(key(after, seen_by))
                queue.append((after, seen_by))
    assert promotions > 0
    assert canaries > 0
    assert len(seen) > 100
    assert transitions > len(seen)
