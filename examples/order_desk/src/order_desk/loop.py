"""The loop itself: traffic, training, the gate, the canary; and on with better weights.

A round's traffic is served by what is live. Once governed and landed, it trains a candidate (three
quarters of the tasks); all held-out tasks that the live version has served evaluate it. Only when
replay's gate opens does the candidate meet customers: half of the sessions of a second, smaller
traffic, which decides whether it is promoted or rolled back. Nothing is decided here: the gate is
replay's, the canary's verdict the release flow's; the loop carries out what they say and writes
down what happened.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atdp.control import CanaryPolicy, ReleaseStage, analyse_canary, read_manifest
from atdp.lakehouse import create_dataset
from atdp.replay import ReplayConfig, ReplayReport, Verdict, evaluate_dataset, write_report
from atdp.trainer import SourceError
from order_desk.agents import Served, Visit
from order_desk.customers import Customers
from order_desk.errors import DemoError
from order_desk.platform import Platform
from order_desk.rate import Rate
from order_desk.rounds import Canary, Candidate, Prediction, learnt_enough
from order_desk.screen import Screen
from order_desk.settings import AGENTS_SQL, CONSENTING, HELD_OUT_SQL, MODEL, WITHDRAWN, DemoSettings
from order_desk.training import TrainedRun, reinforce


@dataclass
class Loop:
    """The rounds of one demo; what happened is kept in its fields."""

    platform: Platform
    settings: DemoSettings
    screen: Screen
    customers: Customers
    candidates: list[Candidate] = field(default_factory=list)
    traffic: dict[str, Rate] = field(default_factory=dict)
    """Phase → success of all its sessions."""
    failures: list[str] = field(default_factory=list)
    """Sessions that ended without an answer because a call failed."""

    def __post_init__(self) -> None:
        """Draw tenants from a stream of their own."""
        self._random = random.Random(f"tenants/{self.settings.seed}")  # noqa: S311 (a simulation)
        self._first_customer = time.monotonic()

    @property
    def live(self) -> str:
        """The version that serves."""
        live = self.platform.flow.state().live
        if live is None:
            raise DemoError("no version is live; the release line has no bootstrap")
        return live.version

    def measure(self, phase: str, title: str) -> Rate:
        """Success of what is live, on fresh tasks, one attempt each, at the agents' own temperature."""
        return self.serve(phase, title, self.settings.measured_tasks)

    def run_rounds(self) -> None:
        """All rounds; one of them has a second, deliberately bad candidate.

        More are added while that is worth it.
        """
        settings = self.settings
        for number in range(1, settings.rounds + settings.extra_rounds + 1):
            if number > settings.rounds and not self._wants_another():
                break
            added = (
                " (added: there is more to learn)"
                if number > settings.rounds
                else f" of {settings.rounds}"
            )
            self.screen.note(f"round {number}{added}", style="bold")
            self.serve(
                f"r{number}",
                f"customers of round {number}",
                settings.tasks_per_round,
                attempts=settings.attempts,
            )
            if number == settings.bad_round:
                self.try_candidate(number, deliberately_bad=True)
            self.try_candidate(number)
            if self.platform.flow.state().canary is not None:
                self.serve(
                    f"canary{number}", "customers who decide the canary", settings.canary_sessions
                )
                self.decide_canary()

    def _wants_another(self) -> bool:
        """Decided by served customers, never by the measurement at the end, which no choice here may see."""
        in_time = time.monotonic() - self._first_customer < self.settings.extra_rounds_within_s
        return in_time and not learnt_enough(
            self.traffic["before"], self.candidates, self.settings.enough
        )

    def serve(self, phase: str, title: str, tasks: int, *, attempts: int = 1) -> Rate:
        """Serve fresh customers and wait until everything about them has landed."""
        settings = self.settings
        visits = [
            Visit(tenant=tenant, phase=phase, order=order, attempt=attempt)
            for order in self.customers.orders(tasks)
            for tenant in [CONSENTING if self._random.random() < settings.acme_share else WITHDRAWN]
            for attempt in range(attempts)
        ]
        with self.screen.bar(title, len(visits)) as advance:
            served = self.platform.desk.serve(visits, on_served=lambda _served: advance(1))
        self._land()
        self.failures += [
            f"{each.visit.trajectory_id}: {each.failure}" for each in served if each.failure
        ]
        rate = Rate.of((each.visit.order.task_id, each.reward == 1.0) for each in served)
        self.traffic[phase] = rate
        self.screen.note(
            f"{rate.shown} of {rate.sessions} sessions answered right" + _by_track(served)
        )
        return rate

    def decide_canary(self) -> None:
        """Judge the canary, if there is one, by what has landed; then promote it or roll it back."""
        flow = self.platform.flow
        canary = flow.state().canary
        if canary is None:
            return
        look = analyse_canary(flow, self.platform.lake)
        counts, verdict = look.counts, look.judgement.verdict
        if verdict is Verdict.PASS:
            flow.promote(canary.version)
        elif flow.stage_of(canary.version) in (ReleaseStage.CANARY, ReleaseStage.PAUSED):
            flow.roll_back(canary.version, reason="the round's sessions did not decide the canary")
        outcome = "promoted" if self.live == canary.version else "rolled back"
        self._decided(
            canary.version,
            Canary(
                share=canary.share,
                candidate=Rate(successes=counts.canary_successes, sessions=counts.canary_judged),
                live=Rate(successes=counts.stable_successes, sessions=counts.stable_judged),
                verdict=verdict.value,
                outcome=outcome,
            ),
        )

    def try_candidate(self, number: int, *, deliberately_bad: bool = False) -> None:
        """Train a candidate from the live version, ask the gate, and make it the canary when the gate opens."""
        settings, platform = self.settings, self.platform
        base = self.live
        factor = settings.bad_learning_rate_factor if deliberately_bad else 1.0
        what = (
            f"training, learning rate x{factor:g} on purpose"
            if deliberately_bad
            else f"training from {base}"
        )
        try:
            with self.screen.bar_to(what, settings.most_steps) as on_step:
                run = reinforce(
                    platform.home,
                    settings,
                    base=base,
                    phase=f"r{number}",
                    name=f"round-{number}" + ("-bad" if deliberately_bad else ""),
                    learning_rate=settings.learning_rate * factor,
                    on_step=on_step,
                )
        except SourceError as error:
            self.screen.note(f"no candidate in this round: {error}", style="yellow")
            return
        version = run.published.version
        platform.flow.register_candidate(read_manifest(platform.home.weights, MODEL, version))
        report = self._gate(number, version, base)
        platform.flow.record_gate(report)
        self.candidates.append(
            _candidate(number, base, run, report, deliberately_bad=deliberately_bad)
        )
        self._tell(report)
        if report.verdict is Verdict.PASS and not deliberately_bad:
            policy = CanaryPolicy(
                margin=settings.canary_margin, tune_at_sessions=settings.canary_sessions // 2
            )
            platform.flow.start_canary(version, share=settings.canary_share, policy=policy)
            self.screen.note(
                f"canary: {settings.canary_share:.0%} of new sessions meet {version} from now on"
            )

    def _gate(self, number: int, version: str, base: str) -> ReplayReport:
        """Replay on held-out tasks that the live version served so far, pinned; that none was trained on is looked up by key."""
        platform, name = self.platform, f"held-out-r{number}"
        if not (platform.home.datasets / f"{name}.json").exists():
            create_dataset(
                platform.lake,
                name,
                f"{AGENTS_SQL} AND {HELD_OUT_SQL} AND weight_version = '{base}'",
            )
        report = evaluate_dataset(
            platform.home,
            dataset=name,
            model=MODEL,
            candidate=version,
            baseline=base,
            config=ReplayConfig(seed=self.settings.seed),
        )
        if overlap := report.evaluation.coverage.learned_from:
            raise DemoError(
                f"{overlap} trajectories are of tasks that were trained on; the split leaks"
            )
        write_report(report, platform.home.root / "replay" / f"{version}.html")
        return report

    def _tell(self, report: ReplayReport) -> None:
        candidate = self.candidates[-1]
        found = candidate.prediction
        says = (
            "no estimate"
            if found is None
            else (
                f"predicts {found.estimate:.1%} [{found.lower:.1%}, {found.upper:.1%}], baseline {found.baseline:.1%}"
            )
        )
        style = {"PASS": "green", "FAIL": "red"}.get(report.verdict.value, "yellow")
        self.screen.note(
            f"gate: {report.verdict.value} for {candidate.version}: {says}; {', '.join(candidate.reasons)}",
            style=style,
        )

    def _decided(self, version: str, canary: Canary) -> None:
        self.candidates = [
            replace(c, canary=canary) if c.version == version else c for c in self.candidates
        ]
        self.screen.note(
            f"canary: {version} answered {canary.candidate.shown} of {canary.candidate.sessions} right, "
            f"live {canary.live.shown} of {canary.live.sessions}: {canary.verdict}, {canary.outcome}",
            style="green" if canary.outcome == "promoted" else "yellow",
        )

    def _land(self) -> None:
        self.platform.wait_until_landed()


def _candidate(
    number: int, base: str, run: TrainedRun, report: ReplayReport, *, deliberately_bad: bool
) -> Candidate:
    evaluation, weights = report.evaluation, report.evaluation.candidate_weights
    found, unbiased = (
        evaluation.estimate(report.inputs.config.estimator),
        evaluation.estimate("pdis"),
    )
    prediction = None
    if found is not None and unbiased is not None and weights is not None:
        prediction = Prediction(
            estimate=found.candidate.estimate,
            lower=found.candidate.lower,
            upper=found.candidate.upper,
            unbiased=unbiased.candidate.estimate,
            baseline=found.baseline.estimate,
            effective_sample_size=weights.least_ess,
            trajectories=weights.trajectories,
        )
    return Candidate(
        round=number,
        version=run.published.version,
        parent=base,
        deliberately_bad=deliberately_bad,
        steps=run.steps,
        trajectories_used=run.trajectories_used,
        training_reward=run.rewards,
        verdict=report.verdict.value,
        reasons=tuple(reason.code for reason in report.reasons),
        prediction=prediction,
    )


def _by_track(served: Sequence[Served]) -> str:
    """Success by weight version, where there is more than one."""
    versions = sorted({each.weight_version for each in served if each.weight_version})
    if len(versions) < 2:
        return f" ({versions[0]})" if versions else ""
    parts = []
    for version in versions:
        mine = [each.reward for each in served if each.weight_version == version]
        parts.append(f"{version}: {sum(mine) / len(mine):.1%} of {len(mine)}")
    return f" ({', '.join(parts)})"
