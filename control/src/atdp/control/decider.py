"""The guards of the release flow: `decide(line, command) -> events`, pure.

What always holds, whatever is asked in whatever order:

- one version is live, at most one is a canary;
- nobody becomes a canary without a replay PASS on exactly these weights, against the version that
  is live now, no older than the evidence's time to live, and for *every* tenant of the line: one
  tenant's evidence never opens a gate for another, and the last word of a report about a tenant
  counts;
- nobody becomes live but the bootstrapped version, a canary that passed at its last step, or
  (rolling back) a version that was live before;
- the share rises one planned step at a time, each after a PASS at the step before; it may fall to 0
  at any time;
- rolling back is possible from every state that has something to roll back to, and asks nobody; it
  names what it takes off, so that asking twice takes off no more.

A command that was carried out before gives no events (same candidate, same report): callers may
repeat themselves. A command that a guard forbids raises `DecisionRefused` with a stable code.
"""

from datetime import datetime
from itertools import pairwise
from typing import assert_never

from atdp.control import commands
from atdp.control.errors import DecisionRefused
from atdp.control.events import (
    Body,
    Bootstrapped,
    CanaryObserved,
    CanaryPaused,
    CanaryResumed,
    CanaryRolledBack,
    CanaryShareRaised,
    CanaryStarted,
    CandidateRegistered,
    CandidateRejected,
    GateRecorded,
    LiveRolledBack,
    Promoted,
)
from atdp.control.judge import judge
from atdp.control.state import Canary, ReleaseStage, ReleaseState, Version
from atdp.replay import Verdict

ENGINES = ("inference-0", "inference-1")
"""The two engines of a line, by their names in the stack. Live and canary take turns on them, so
that promoting and rolling back move routes, not weights."""


def decide(line: ReleaseState, command: commands.Command) -> tuple[Body, ...]:
    """Events that carry out the command; none when it is carried out already. Raises `DecisionRefused`."""
    if isinstance(command, commands.Bootstrap):
        return _bootstrap(line, command)
    if line.live is None:
        raise DecisionRefused(
            "not_bootstrapped",
            "this line has no live version yet; put the first one live with `bootstrap`",
        )
    match command:
        case commands.Register():
            return _register(line, command)
        case commands.RecordGate():
            return _record_gate(line, command.gate)
        case commands.StartCanary():
            return _start_canary(line, command)
        case commands.Observe():
            return _observe(line, command)
        case commands.RaiseShare():
            return _raise_share(line, command)
        case commands.Resume():
            canary = _running(line, command.version)
            if line.versions[canary.version].stage is not ReleaseStage.PAUSED:
                raise DecisionRefused(
                    "not_paused", f"canary {canary.version} is not paused; it goes on"
                )
            return (CanaryResumed(version=canary.version, reason=command.reason),)
        case commands.Promote():
            return _promote(line, command)
        case commands.RollBack():
            return _roll_back(line, command)
        case _:
            assert_never(command)


def _bootstrap(line: ReleaseState, command: commands.Bootstrap) -> tuple[Body, ...]:
    if line.live is not None:
        first = line.versions[line.lineage[0]]
        if (first.name, first.weights_sha256) == (command.version, command.weights_sha256):
            return ()
        raise DecisionRefused(
            "already_bootstrapped",
            f"{line.model} {line.live.version} is live; other versions come as candidates, through the gate",
        )
    if not command.tenants or len(set(command.tenants)) != len(command.tenants):
        raise DecisionRefused("tenants", "a line serves one or more tenants, each named once")
    return (
        Bootstrapped(
            model=command.model,
            tenants=tuple(sorted(command.tenants)),
            version=command.version,
            weights_sha256=command.weights_sha256,
            engine=ENGINES[0],
            evidence_ttl_s=command.evidence_ttl_s,
            reason=command.reason,
        ),
    )


def _register(line: ReleaseState, command: commands.Register) -> tuple[Body, ...]:
    known = line.versions.get(command.version)
    if known is not None:
        if known.weights_sha256 == command.weights_sha256:
            return ()
        raise DecisionRefused(
            "version_reused",
            f"{line.model} {command.version} was registered with other weights ({known.weights_sha256[:12]}…); a"
            " version names one set of weights for ever",
        )
    return (
        CandidateRegistered(
            version=command.version,
            weights_sha256=command.weights_sha256,
            parent=command.parent,
            run_id=command.run_id,
            snapshots=command.snapshots,
            policy_versions=command.policy_versions,
            trajectories_used=command.trajectories_used,
        ),
    )


def _record_gate(line: ReleaseState, gate: GateRecorded) -> tuple[Body, ...]:
    version = _known(line, gate.version, gate.weights_sha256)
    known = [g for g in version.gates if g.report_sha256 == gate.report_sha256]
    if known and (
        version.stage is not ReleaseStage.REGISTERED or _fresh(line, known[-1], gate.decided_at)
    ):
        return ()  # an evaluation that is repeated once the report is void renews it: same data, same hash
    if version.stage is not ReleaseStage.REGISTERED:
        raise DecisionRefused(
            "not_a_candidate", f"{version.name} is {version.stage}; no gate is open for it"
        )
    if gate.verdict is Verdict.FAIL:
        rejected = CandidateRejected(
            version=gate.version,
            weights_sha256=gate.weights_sha256,
            reason_codes=gate.reason_codes,
            report_sha256=gate.report_sha256,
        )
        return (gate, rejected)
    return (gate,)


def opening_reports(line: ReleaseState, version: Version, at: datetime) -> dict[str, str]:
    """The report that opens the gate for each tenant of the line: tenant → report hash.

    Pure; used by `decide`.

    Per tenant the latest report against the version that is live now decides; it must be a PASS and
    young enough.
    """
    live = line.live.version if line.live else None
    latest: dict[str, GateRecorded] = {}
    for gate in version.gates:
        if gate.weights_sha256 == version.weights_sha256 and gate.baseline == live:
            latest.update(dict.fromkeys(gate.tenants, gate))
    return {
        tenant: gate.report_sha256
        for tenant, gate in sorted(latest.items())
        if tenant in line.tenants and gate.verdict is Verdict.PASS and _fresh(line, gate, at)
    }


def _fresh(line: ReleaseState, gate: GateRecorded, at: datetime) -> bool:
    return 0 <= (at - gate.decided_at).total_seconds() <= line.evidence_ttl_s


def _start_canary(line: ReleaseState, command: commands.StartCanary) -> tuple[Body, ...]:
    version = _known(line, command.version, command.weights_sha256)
    if line.canary is not None:
        raise DecisionRefused(
            "canary_running",
            f"{line.canary.version} is the canary; promote it or roll it back first",
        )
    if version.stage is not ReleaseStage.REGISTERED:
        raise DecisionRefused("not_a_candidate", f"{version.name} is {version.stage}")
    steps = command.steps
    if not steps or any(not 0 < s < 1 for s in steps) or any(b <= a for a, b in pairwise(steps)):
        raise DecisionRefused(
            "steps",
            f"the shares {steps} must rise, each above 0 and below 1 (the rest is what the canary is compared with)",
        )
    opened = opening_reports(line, version, command.at)
    missing = [t for t in line.tenants if t not in opened]
    if missing:
        raise DecisionRefused(
            "gate_closed",
            f"{version.name} has no fresh replay PASS against the live {line.lineage[-1]} for tenant(s) {', '.join(missing)};"
            f" run `atdp replay --record --candidate {version.name} --baseline {line.lineage[-1]}` on a dataset with enough of"
            " theirs",
        )
    return (
        CanaryStarted(
            version=version.name,
            weights_sha256=version.weights_sha256,
            engine=spare_engine(line),
            steps=steps,
            salt=command.salt,
            policy=command.policy,
            reports=tuple(sorted(set(opened.values()))),
        ),
    )


def spare_engine(line: ReleaseState) -> str:
    """The engine that does not serve the live version."""
    live = line.live.engine if line.live else ENGINES[1]
    return next(e for e in ENGINES if e != live)


def _observe(line: ReleaseState, command: commands.Observe) -> tuple[Body, ...]:
    canary = _running(line, command.version)
    if line.versions[canary.version].stage is ReleaseStage.PAUSED:
        raise DecisionRefused(
            "paused", f"canary {canary.version} is paused; resume it or roll it back"
        )
    found = judge(command.counts, share=canary.share, policy=canary.policy)
    if found.verdict is Verdict.INCONCLUSIVE and not found.hold:
        return ()
    counts = command.counts
    observed = CanaryObserved(
        version=canary.version,
        share=canary.share,
        verdict=found.verdict,
        reason_codes=found.reason_codes,
        canary_sessions=counts.canary_sessions,
        canary_judged=counts.canary_judged,
        canary_successes=counts.canary_successes,
        stable_sessions=counts.stable_sessions,
        stable_judged=counts.stable_judged,
        stable_successes=counts.stable_successes,
        difference=found.difference,
        lower=found.lower,
        upper=found.upper,
        snapshots=command.snapshots,
    )
    if found.verdict is Verdict.FAIL:
        return (
            observed,
            _canary_back(
                line, canary, found.reason_codes, "the canary did worse than the live version"
            ),
        )
    if found.hold:
        return (observed, CanaryPaused(version=canary.version, reason_codes=found.reason_codes))
    return (observed,)


def _raise_share(line: ReleaseState, command: commands.RaiseShare) -> tuple[Body, ...]:
    canary = _passed(line, command.version)
    if canary.at_last_step:
        raise DecisionRefused(
            "last_step",
            f"canary {canary.version} is at its last share, {canary.share:g}; promote it",
        )
    return (CanaryShareRaised(version=canary.version, share=canary.steps[canary.step + 1]),)


def _promote(line: ReleaseState, command: commands.Promote) -> tuple[Body, ...]:
    if line.live is not None and line.live.version == command.version:
        return ()
    canary = _passed(line, command.version)
    if not canary.at_last_step:
        raise DecisionRefused(
            "not_at_last_step",
            f"canary {canary.version} has {canary.share:g} of the sessions; raise its share first",
        )
    version = line.versions[canary.version]
    return (
        Promoted(
            version=version.name,
            weights_sha256=version.weights_sha256,
            engine=canary.engine,
            superseded=line.lineage[-1],
            reports=tuple(
                sorted({g.report_sha256 for g in version.gates if g.verdict is Verdict.PASS})
            ),
        ),
    )


def _roll_back(line: ReleaseState, command: commands.RollBack) -> tuple[Body, ...]:
    version = line.versions.get(command.version)
    if version is None:
        raise DecisionRefused(
            "unknown_version",
            f"{line.model} has no version {command.version}; see `atdp control candidate list`",
        )
    if version.stage is ReleaseStage.ROLLED_BACK:
        return ()
    if version.stage not in (ReleaseStage.CANARY, ReleaseStage.PAUSED, ReleaseStage.LIVE):
        trial = f", {line.canary.version} is the canary" if line.canary else ""
        raise DecisionRefused(
            "not_serving", f"{version.name} is {version.stage}; {line.lineage[-1]} is live{trial}"
        )
    events: list[Body] = []
    if line.canary is not None:
        events.append(_canary_back(line, line.canary, ("asked",), command.reason))
    if version.stage is ReleaseStage.LIVE:
        if len(line.lineage) < 2:
            raise DecisionRefused(
                "nothing_before",
                f"{line.lineage[-1]} is the first version; there is none to return to",
            )
        failing, to = line.versions[line.lineage[-1]], line.versions[line.lineage[-2]]
        events.append(
            LiveRolledBack(
                version=failing.name,
                weights_sha256=failing.weights_sha256,
                to=to.name,
                to_weights_sha256=to.weights_sha256,
                engine=spare_engine(line),
                reason=command.reason,
            )
        )
    return tuple(events)


def _canary_back(
    line: ReleaseState, canary: Canary, codes: tuple[str, ...], reason: str
) -> CanaryRolledBack:
    return CanaryRolledBack(
        version=canary.version,
        weights_sha256=line.versions[canary.version].weights_sha256,
        to=line.lineage[-1],
        reason_codes=codes,
        reason=reason,
    )


def _known(line: ReleaseState, name: str, weights_sha256: str) -> Version:
    version = line.versions.get(name)
    if version is None:
        raise DecisionRefused(
            "unknown_version",
            f"{line.model} {name} is no candidate yet; `atdp control candidate register {name}` makes it one",
        )
    if version.weights_sha256 != weights_sha256:
        raise DecisionRefused(
            "other_weights",
            f"{name} was registered with weights {version.weights_sha256[:12]}…, this is about {weights_sha256[:12]}…",
        )
    return version


def _running(line: ReleaseState, version: str) -> Canary:
    if line.canary is None or line.canary.version != version:
        found = (
            f"{line.canary.version} is"
            if line.canary
            else "there is none (`atdp control canary start`)"
        )
        raise DecisionRefused("not_the_canary", f"{version} is not the canary; {found}")
    return line.canary


def _passed(line: ReleaseState, version: str) -> Canary:
    canary = _running(line, version)
    if line.versions[version].stage is ReleaseStage.PAUSED:
        raise DecisionRefused("paused", f"canary {version} is paused; resume it or roll it back")
    if not canary.passed:
        raise DecisionRefused(
            "canary_not_passed",
            f"canary {version} has no PASS at a share of {canary.share:g} yet; `atdp control canary judge --wait 600`"
            " looks at its sessions",
        )
    return canary
