"""The release flow as a service: read the line, decide, store, put into force, publish.

Each method is one decision. Its events are on disk before anything else happens; effects follow
from them and are repeated by `reconcile` until they hold; publishing waits for Kafka and never
holds up a decision. Two flows on one line are safe: the store lets one win, the other gets
`DecisionConflict`; and the last decision is what ends up in force (`effects`). A method returns the line
that is in force, which may be later than its own decision.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from atdp.control import commands
from atdp.control.decider import decide
from atdp.control.effects import Effects, Fleet, Router
from atdp.control.errors import DecisionRefused, EffectFailed, PublishFailed
from atdp.control.events import Decided, GateRecorded
from atdp.control.judge import CanaryCounts, CanaryPolicy, Judgement, judge
from atdp.control.manifest import Manifest
from atdp.control.outbox import Outbox
from atdp.control.state import ReleaseStage, ReleaseState, fold
from atdp.control.store import ReleaseStore, line_name, number_decisions
from atdp.replay import ReplayReport
from atdp.runtime import locked

log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The clock of a running service."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class ReleaseFlow:
    """Releases of one model's weights.

    `weights` is the registry's root, `actor` who decides (person or service).
    """

    model: str
    store: ReleaseStore
    fleet: Fleet
    router: Router
    weights: Path
    actor: str
    outbox: Outbox | None = None
    clock: Callable[[], datetime] = field(default=utc_now)

    @property
    def line(self) -> str:
        """Name of the release line."""
        return line_name(self.model)

    def state(self) -> ReleaseState:
        """The line as it is now."""
        return self.store.state(self.line)

    def history(self) -> tuple[Decided, ...]:
        """All decisions, in order."""
        return self.store.history(self.line)

    def bootstrap(self, manifest: Manifest, *, tenants: Sequence[str], reason: str) -> ReleaseState:
        """Put the first version live, without a gate; once per line, and for one line of a home.

        The store would hold more lines, but the stack has two engines and one table of routes.
        """
        command = commands.Bootstrap(
            model=self.model,
            tenants=tuple(tenants),
            version=manifest.version,
            weights_sha256=manifest.weights_sha256,
            reason=reason,
        )
        with locked(self._locks / "bootstrap.lock"):
            for other in self.store.lines():
                live = None if other == self.line else self.store.state(other).live
                if live is not None:
                    raise DecisionRefused(
                        "home_serves_another",
                        f"{live.version} of {other} is live in this home, whose two engines serve one model; put"
                        f" {self.model} into a home of its own (`atdp --home DIR`, or ATDP_HOME)",
                    )
            self._record(command)
        return self._bring_into_force()

    def register_candidate(self, manifest: Manifest) -> ReleaseState:
        """Make a version known.

        From now on sessions of the superseded version are no longer kept on its engine.
        """
        return self._carry_out(
            commands.Register(
                version=manifest.version,
                weights_sha256=manifest.weights_sha256,
                parent=manifest.parent,
                run_id=manifest.run_id,
                snapshots=manifest.snapshots,
                policy_versions=manifest.policy_versions,
                trajectories_used=manifest.trajectories_used,
            )
        )

    def record_gate(self, report: ReplayReport) -> ReleaseState:
        """Record what replay said about a registered candidate.

        The report must name the weights' hash.
        """
        inputs = report.inputs
        if inputs.candidate.model != self.model:
            raise DecisionRefused(
                "other_model", f"the report is about {inputs.candidate.model}, not {self.model}"
            )
        return self._carry_out(
            commands.RecordGate(
                gate=GateRecorded(
                    version=inputs.candidate.version,
                    weights_sha256=inputs.candidate.weights_sha256 or "unknown",
                    baseline=inputs.baseline.version,
                    verdict=report.verdict,
                    reason_codes=tuple(r.code for r in report.reasons),
                    report_sha256=report.sha256,
                    run_id=report.run_id,
                    dataset=inputs.dataset.name,
                    snapshots=dict(inputs.dataset.snapshots),
                    policy_versions=inputs.dataset.policy_versions,
                    tenants=report.tenants,
                    predicted_reward=report.prediction,
                    decided_at=self.clock(),
                )
            )
        )

    def start_canary(
        self, version: str, *, share: float | Sequence[float], policy: CanaryPolicy | None = None
    ) -> ReleaseState:
        """Give the candidate its first share of new sessions; a sequence names the steps to come."""
        line = self.state()
        known = line.versions.get(version)
        steps = (share,) if isinstance(share, int | float) else tuple(share)
        return self._carry_out(
            commands.StartCanary(
                version=version,
                weights_sha256=known.weights_sha256 if known else "unknown",
                steps=tuple(float(s) for s in steps),
                salt=f"{self.line}/{version}/{line.number + 1}",
                policy=policy or CanaryPolicy(),
                at=self.clock(),
            )
        )

    def judge(self, counts: CanaryCounts) -> Judgement:
        """What `observe` would conclude, without recording it.

        Raises `DecisionRefused` when there is no canary.
        """
        canary = self.state().canary
        if canary is None:
            raise DecisionRefused(
                "no_canary",
                "there is no canary to judge; `atdp control canary start` makes a candidate one",
            )
        return judge(counts, share=canary.share, policy=canary.policy)

    def observe(
        self, version: str, counts: CanaryCounts, *, snapshots: Mapping[str, int] | None = None
    ) -> ReleaseState:
        """Judge the canary.

        Records PASS, FAIL (which rolls it back) or a hold (which pauses); else does nothing.
        """
        command = commands.Observe(version=version, counts=counts, snapshots=dict(snapshots or {}))
        return self._bring_into_force() if self._record(command) else self.state()

    def raise_share(self, version: str) -> ReleaseState:
        """Take the canary's next step."""
        return self._carry_out(commands.RaiseShare(version=version))

    def resume(self, version: str, *, reason: str) -> ReleaseState:
        """Go on with a paused canary."""
        return self._carry_out(commands.Resume(version=version, reason=reason))

    def promote(self, version: str | None = None) -> ReleaseState:
        """Make the canary live."""
        canary = self.state().canary
        if version is None and canary is None:
            raise DecisionRefused(
                "no_canary",
                "there is no canary to promote; `atdp control canary start` makes a candidate one",
            )
        return self._carry_out(
            commands.Promote(version=version or (canary.version if canary else ""))
        )

    def roll_back(self, version: str | None = None, *, reason: str) -> ReleaseState:
        """Take a version off: the canary, or the live one (and with it the canary); None is the canary, never the live one.

        So repeating a roll-back, with or without the version, takes off no more than was asked for.
        """
        line = self.state()
        if version is None and line.canary is None and line.live is not None:
            raise DecisionRefused(
                "no_canary",
                f"there is no canary to roll back; {line.live.version} is live, name it to take it off",
            )
        return self._carry_out(
            commands.RollBack(
                version=version or (line.canary.version if line.canary else ""), reason=reason
            )
        )

    def reconcile(self) -> ReleaseState:
        """Bring engines and routes to what the events say, and publish what waits; run at every start."""
        effects = Effects(fleet=self.fleet, router=self.router, locks=self._locks)
        try:
            return effects.carry_out(self.state)
        finally:
            self._publish()

    def stage_of(self, version: str) -> ReleaseStage | None:
        """Where a version stands; None when it is unknown."""
        known = self.state().versions.get(version)
        return known.stage if known else None

    @property
    def _locks(self) -> Path:
        return self.store.path.parent

    def _carry_out(self, command: commands.Command) -> ReleaseState:
        self._record(command)
        return self._bring_into_force()

    def _record(self, command: commands.Command) -> tuple[Decided, ...]:
        history = self.history()
        line = fold(d.body for d in history)
        bodies = decide(line, command)
        decided = number_decisions(
            self.line, len(history), bodies, at=self.clock(), actor=self.actor
        )
        self.store.append(decided)
        for event in decided:
            log.info("decided %s %s #%d", event.line, event.type, event.number)
        return decided

    def _bring_into_force(self) -> ReleaseState:
        try:
            return self.reconcile()
        except EffectFailed as error:
            raise EffectFailed(
                f"{error}. The decision is recorded; `atdp control reconcile` carries it out, do not repeat it"
            ) from error

    def _publish(self) -> None:
        if self.outbox is None:
            return
        try:
            self.outbox.publish_pending()
        except PublishFailed as error:
            log.warning("decisions wait in the outbox: %s", error)
