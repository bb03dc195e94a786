"""A GRPO run: poll, plan, write the plan, step, checkpoint; killable at any moment.

Effects happen exactly once in the weights: whatever was trained after the last checkpoint is lost
with the process and is done again from the written plans, in the same order with the same content.
On one CPU thread the resumed run ends with the same bits.

The run directory::

    plans/step-00000001.json    written before the step
    steps/step-00000001.json    figures, after it
    checkpoints/…               see checkpoint.py
"""

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from atdp.runtime import write_durably
from atdp.trainer.algo.advantages import AdvantageKind
from atdp.trainer.checkpoint import CheckpointStore, TrainerState, seed_everything
from atdp.trainer.errors import PlanError
from atdp.trainer.groups import GroupRules, SetAside, assemble
from atdp.trainer.linearize import Row, linearize
from atdp.trainer.model import CausalLM
from atdp.trainer.planner import Plan, PlannedRefusals, make_plan, planned_trajectories
from atdp.trainer.position import Position
from atdp.trainer.source import TrajectorySource
from atdp.trainer.step import StepRules, policy_step
from atdp.trainer.trajectory import Trajectory, TrajectoryKey

_log = logging.getLogger("atdp.trainer")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that decides what a run computes."""

    base: str
    """Identity of the weights it starts from."""
    version_now: int
    """Age of `base`, in updates from the first version."""
    groups: GroupRules = field(default_factory=GroupRules)
    step: StepRules = field(default_factory=StepRules)
    advantage: AdvantageKind = "grpo"
    groups_per_step: int = 8
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    seed: int = 0
    selection: str = ""
    """Which data the source offers, in words: part of the identity of the run."""
    already_trained: frozenset[TrajectoryKey] = frozenset()
    """What the run that made `base`, and those before it, trained on: not trained on again."""

    @property
    def hash(self) -> str:
        """SHA-256 of all of it but what is already trained, which follows from `base`."""
        content = asdict(replace(self, already_trained=frozenset()))
        del content["already_trained"]
        return hashlib.sha256(
            json.dumps(content, sort_keys=True, default=list).encode()
        ).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When a run saves, waits and stops: nothing of this changes what it computes."""

    steps: int
    """Stop after this step (counted from the beginning of the run)."""
    checkpoint_every: int = 10
    follow: bool = False
    """Wait for more data when there is not enough for a step; otherwise stop."""
    poll_every_s: float = 0.5
    give_up_after_s: float = 60.0
    """While following: stop when no step became possible for so long."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Where a run stands when it returns."""

    steps: int
    position: Position
    trained: tuple[TrajectoryKey, ...]
    """Every trajectory trained, once per training."""
    tasks: Mapping[TrajectoryKey, str]
    """The task of each."""
    set_aside: Mapping[str, int]
    """Trajectories not trained on, by reason."""
    refused: Mapping[str, int]
    """Trajectories that governance kept back, by reason (as of the last poll)."""
    snapshots: Mapping[str, int]
    policies: tuple[str, ...]
    data_versions: tuple[str, ...]
    last_figures: Mapping[str, Any]


class TrainRun:
    """One run over one source."""

    def __init__(
        self,
        *,
        model: CausalLM,
        source: TrajectorySource,
        settings: RunSettings,
        version_numbers: Callable[[], Mapping[str, int]],
        directory: Path,
        on_step: Callable[[int, Mapping[str, Any]], None] = lambda _n, _f: None,
        on_point: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; resumes from `directory` when there is a checkpoint.

        `version_numbers` gives the age of every published weight version in updates from the first;
        it is asked after each poll, since versions are published while a stream is followed, and
        always before they serve. `on_step` is told the figures of every step, `on_point` the
        moments at which a crash is interesting.
        """
        self._model, self._source, self._settings = model, source, settings
        self._version_numbers = version_numbers
        self._directory, self._on_step, self._on_point = directory, on_step, on_point
        self._checkpoints = CheckpointStore(directory / "checkpoints", on_point=on_point)
        seed_everything(settings.seed)
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, 0.99),
            weight_decay=settings.weight_decay,
        )
        resumed = self._checkpoints.load(model, self._optimizer, settings=settings.hash)
        self._state = resumed or TrainerState(step=0, position=Position(), settings=settings.hash)
        self._refused: Mapping[str, int] | None = None
        self._unplanned: tuple[SetAside, ...] = ()

    @property
    def step(self) -> int:
        """Steps done, as of the newest checkpoint when just resumed."""
        return self._state.step

    def run(self, pace: Pace) -> RunResult:
        """Train until `pace.steps`, or until there is no more data."""
        saved = self._state.step
        waited_since = time.monotonic()
        while self._state.step < pace.steps:
            plan = self._next_plan()
            if plan is None:
                if not pace.follow or time.monotonic() - waited_since > pace.give_up_after_s:
                    break
                time.sleep(pace.poll_every_s)
                continue
            self._do(plan)
            waited_since = time.monotonic()
            if self._state.step % pace.checkpoint_every == 0:
                self._save()
                saved = self._state.step
        if self._state.step != saved:
            self._save()
        return self._result()

    # --- plans ---

    def _next_plan(self) -> Plan | None:
        """The written plan of the next step, or a new one; `None` when nothing is ready."""
        number = self._state.step + 1
        written = self._read_plan(number)
        if written is not None and written.before == self._state.position:
            if written.settings != self._settings.hash:
                raise PlanError(
                    f"plan {number} in {self._directory} was made with other settings; use another run name"
                )
            if planned_trajectories(written, self._source.fetch(written.trained)) is not None:
                return written
            _log.warning(
                "plan %d cannot be repeated, its data have changed or been erased; planning anew",
                number,
            )
        return self._plan(number, replaces=written.hash if written is not None else None)

    def _plan(self, number: int, *, replaces: str | None) -> Plan | None:
        poll = self._source.poll(self._state.position)
        self._refused = poll.refused
        assembly = assemble(
            poll.trajectories,
            self._settings.groups,
            version_numbers=self._version_numbers(),
            version_now=self._settings.version_now,
            exhausted=poll.exhausted,
            already_trained=self._settings.already_trained,
            decided=self._state.position.decided.values(),
            open_starts=poll.open_starts,
        )
        plan = make_plan(
            number,
            self._state.position,
            assembly,
            groups_per_step=self._settings.groups_per_step,
            advantage=self._settings.advantage,
            settings=self._settings.hash,
            snapshots=poll.snapshots,
            refused=poll.refused,
            replaces=replaces,
        )
        enough = len(plan.groups) == self._settings.groups_per_step or (
            poll.exhausted and plan.groups
        )
        self._unplanned = () if enough else assembly.set_aside
        return plan if enough else None

    def _read_plan(self, number: int) -> Plan | None:
        path = self._plan_path(number)
        return Plan.from_json(json.loads(path.read_text())) if path.is_file() else None

    def _plan_path(self, number: int) -> Path:
        return self._directory / "plans" / f"step-{number:08d}.json"

    def _report_path(self, number: int) -> Path:
        return self._directory / "steps" / f"step-{number:08d}.json"

    # --- steps ---

    def _do(self, plan: Plan) -> None:
        write_durably(self._plan_path(plan.step), json.dumps(plan.to_json(), indent=1))
        self._on_point("plan written")
        members = planned_trajectories(plan, self._source.fetch(plan.trained))
        if members is None:
            raise PlanError(
                f"a trajectory of plan {plan.step} vanished while it was made; run again"
            )
        rows, weights, forks = self._rows(plan, members)
        started = time.perf_counter(), time.process_time()
        figures = policy_step(
            self._model,
            self._optimizer,
            rows,
            weights,
            self._settings.step,
            on_point=self._on_point,
        )
        rewards = [member.reward for group in plan.groups for member in group.members]
        report = figures.to_json() | {
            "step": plan.step,
            "plan": plan.hash,
            "groups": len(plan.groups),
            "trajectories": len(rewards),
            "reward_mean": sum(rewards) / len(rewards),
            "rows": len(rows),
            "forks": forks,
            "set_aside": dict(_by_reason(plan.set_aside)),
            "policies": sorted({t.policy for t in members.values() if t.policy is not None}),
            "data_versions": sorted(
                {v for t in members.values() for turn in t.turns for v in turn.versions}
            ),
            "seconds": time.perf_counter() - started[0],
            "cpu_seconds": time.process_time() - started[1],
        }
        self._state = TrainerState(
            step=plan.step, position=plan.after, settings=self._settings.hash
        )
        write_durably(self._report_path(plan.step), json.dumps(report, indent=1))
        self._on_point("step done")
        self._on_step(plan.step, report)

    def _rows(
        self, plan: Plan, members: Mapping[TrajectoryKey, Trajectory]
    ) -> tuple[list[Row], list[float], int]:
        rows: list[Row] = []
        weights: list[float] = []
        forks = 0
        for group in plan.groups:
            for member in group.members:
                trajectory = members[member.key]
                merged = linearize(trajectory.turns)
                rows += merged.rows
                weights += [member.advantage] * len(merged.rows)
                forks += merged.forks
        return rows, weights, forks

    def _save(self) -> None:
        self._checkpoints.save(self._model, self._optimizer, self._state)

    def _result(self) -> RunResult:
        """Taken from the written plans and reports of the steps done, so that it covers what earlier processes of this run have done."""
        done = range(1, self._state.step + 1)
        plans = [plan for n in done if (plan := self._read_plan(n)) is not None]
        reports = [
            json.loads(path.read_text()) for n in done if (path := self._report_path(n)).is_file()
        ]
        aside: Counter[str] = Counter()
        for plan in plans:
            aside += _by_reason(plan.set_aside)
        for left in self._unplanned:
            aside[left.reason] += len(left.members)
        return RunResult(
            steps=self._state.step,
            position=self._state.position,
            trained=tuple(key for plan in plans for key in plan.trained),
            tasks={
                member.key: group.task
                for plan in plans
                for group in plan.groups
                for member in group.members
            },
            set_aside=dict(aside),
            refused=self._refused
            if self._refused is not None
            else plans[-1].refused
            if plans
            else {},
            snapshots=plans[-1].snapshots if plans else {},
            policies=tuple(sorted({policy for report in reports for policy in report["policies"]})),
            data_versions=tuple(
                sorted({version for report in reports for version in report["data_versions"]})
            ),
            last_figures=reports[-1] if reports else {},
        )


def _by_reason(refusals: Iterable[PlannedRefusals]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for refusal in refusals:
        counts[refusal.reason] += len(refusal.keys)
    return counts
