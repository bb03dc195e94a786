"""A GRPO run: poll, plan, write the plan, step, checkpoint. It may be killed at any moment.

Every step has its effect on the weights exactly once. Steps after the last checkpoint are lost with
the process and are done again from the written plans, in the same order with the same content. On
one CPU thread the resumed run ends with the same bits.

The run directory::

    plans/step-00000001.json    written before the step
    steps/step-00000001.json    the report with the step's metrics, written after it
    checkpoints/…               see checkpoint.py
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from atdp.runtime import write_durably
from atdp.trainer.checkpoint import CheckpointStore, TrainerState, seed_everything
from atdp.trainer.errors import PlanError
from atdp.trainer.groups import GroupCandidates, SetAside, VersionAges, assemble_groups
from atdp.trainer.linearize import Row, linearize
from atdp.trainer.model import CausalLM
from atdp.trainer.plan import Plan, PlannedRefusals
from atdp.trainer.planner import make_plan, planned_trajectories
from atdp.trainer.position import StreamPosition
from atdp.trainer.run_settings import Pace, RunResult, RunSettings
from atdp.trainer.source import TrajectorySource
from atdp.trainer.step import policy_step
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey

_log = logging.getLogger("atdp.trainer")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHooks:
    """Functions that a run calls."""

    on_step: Callable[[int, Mapping[str, Any]], None] = lambda _step, _metrics: None
    """Called after every step with its number and its report."""
    on_point: Callable[[str], None] = lambda _: None
    """Called at the moments between which a crash has different effects (for tests)."""


class GrpoRun:
    """One run over one source."""

    def __init__(
        self,
        *,
        model: CausalLM,
        source: TrajectorySource,
        settings: RunSettings,
        version_numbers: Callable[[], Mapping[str, int]],
        directory: Path,
        hooks: RunHooks = RunHooks(),
    ) -> None:
        """Prepare the run; it resumes from `directory` when there is a checkpoint.

        `version_numbers` returns the age of every published weight version, in updates from the
        first. It is called after each poll: versions are published while a stream is followed, but
        always before they serve.
        """
        self._model, self._source, self._settings = model, source, settings
        self._version_numbers = version_numbers
        self._directory, self._hooks = directory, hooks
        self._checkpoints = CheckpointStore(directory / "checkpoints", on_point=hooks.on_point)
        seed_everything(settings.seed)
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, 0.99),
            weight_decay=settings.weight_decay,
        )
        resumed = self._checkpoints.load(model, self._optimizer, settings=settings.hash)
        self._state = resumed or TrainerState(
            step=0, position=StreamPosition(), settings=settings.hash
        )
        self._refused: Mapping[str, int] | None = None
        self._unplanned: tuple[SetAside, ...] = ()

    @property
    def step(self) -> int:
        """Steps done; after a resume, those of the newest checkpoint."""
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
            self._do_step(plan)
            waited_since = time.monotonic()
            if self._state.step % pace.checkpoint_every == 0:
                self._save()
                saved = self._state.step
        if self._state.step != saved:
            self._save()
        return self._result()

    # --- plans ---

    def _next_plan(self) -> Plan | None:
        """Return the written plan of the next step, or a new one; None when nothing is ready."""
        number = self._state.step + 1
        written = self._read_plan(number)
        if written is not None and written.before == self._state.position:
            if written.settings != self._settings.hash:
                raise PlanError(
                    f"plan {number} in {self._directory} was made with other settings;"
                    " use another run name"
                )
            if planned_trajectories(written, self._source.fetch(written.trained)) is not None:
                return written
            _log.warning(
                "plan %d cannot be repeated, since its data have changed or been erased;"
                " a new plan is made",
                number,
            )
        return self._new_plan(number, replaces=written.hash if written is not None else None)

    def _new_plan(self, number: int, *, replaces: str | None) -> Plan | None:
        position, settings = self._state.position, self._settings
        poll = self._source.poll(position)
        self._refused = poll.refused
        assembly = assemble_groups(
            GroupCandidates(
                trajectories=poll.trajectories,
                exhausted=poll.exhausted,
                decided=tuple(position.decided.values()),
                open_starts=poll.open_starts,
            ),
            settings.groups,
            VersionAges(numbers=self._version_numbers(), current=settings.version_now),
            already_trained=settings.already_trained,
        )
        plan = make_plan(number, position, assembly, settings, poll, replaces=replaces)
        enough = len(plan.groups) == settings.groups_per_step or (poll.exhausted and plan.groups)
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

    def _do_step(self, plan: Plan) -> None:
        write_durably(self._plan_path(plan.step), json.dumps(plan.to_json(), indent=1))
        self._hooks.on_point("plan written")
        members = planned_trajectories(plan, self._source.fetch(plan.trained))
        if members is None:
            raise PlanError(
                f"a trajectory of plan {plan.step} vanished while the plan was made; run again"
            )
        rows, advantages, forks = _training_rows(plan, members)
        wall, cpu = time.perf_counter(), time.process_time()
        metrics = policy_step(
            self._model,
            self._optimizer,
            rows,
            advantages,
            self._settings.step,
            on_point=self._hooks.on_point,
        )
        report = {
            **metrics.to_json(),
            **_plan_report(plan, members, rows=len(rows), forks=forks),
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - cpu,
        }
        self._state = TrainerState(
            step=plan.step, position=plan.after, settings=self._settings.hash
        )
        write_durably(self._report_path(plan.step), json.dumps(report, indent=1))
        self._hooks.on_point("step done")
        self._hooks.on_step(plan.step, report)

    def _save(self) -> None:
        self._checkpoints.save(self._model, self._optimizer, self._state)

    # --- the result ---

    def _result(self) -> RunResult:
        """Return the result of the whole run, from the plans and reports of the steps done.

        So it also covers the steps that earlier processes of this run have done.
        """
        done = range(1, self._state.step + 1)
        plans = [plan for n in done if (plan := self._read_plan(n)) is not None]
        reports = [
            json.loads(path.read_text()) for n in done if (path := self._report_path(n)).is_file()
        ]
        set_aside: Counter[str] = Counter()
        for plan in plans:
            set_aside += _count_by_reason(plan.set_aside)
        for refusal in self._unplanned:
            set_aside[refusal.reason] += len(refusal.members)
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
            set_aside=dict(set_aside),
            refused=self._last_refused(plans),
            snapshots=plans[-1].snapshots if plans else {},
            policies=_distinct(reports, "policies"),
            data_versions=_distinct(reports, "data_versions"),
            last_metrics=reports[-1] if reports else {},
        )

    def _last_refused(self, plans: list[Plan]) -> Mapping[str, int]:
        """Return the refusals of this process's last poll, or else of the last written plan."""
        if self._refused is not None:
            return self._refused
        return plans[-1].refused if plans else {}


def _training_rows(
    plan: Plan, members: Mapping[TrajectoryKey, TrainingTrajectory]
) -> tuple[list[Row], list[float], int]:
    """Return the rows of a plan, the advantage of each row, and the number of forks."""
    rows: list[Row] = []
    advantages: list[float] = []
    forks = 0
    for group in plan.groups:
        for member in group.members:
            merged = linearize(members[member.key].turns)
            rows += merged.rows
            advantages += [member.advantage] * len(merged.rows)
            forks += merged.forks
    return rows, advantages, forks


def _plan_report(
    plan: Plan,
    members: Mapping[TrajectoryKey, TrainingTrajectory],
    *,
    rows: int,
    forks: int,
) -> dict[str, Any]:
    """Return the part of a step's report that describes its plan and data."""
    rewards = [member.reward for group in plan.groups for member in group.members]
    policies = {t.policy for t in members.values() if t.policy is not None}
    versions = {v for t in members.values() for turn in t.turns for v in turn.versions}
    return {
        "step": plan.step,
        "plan": plan.hash,
        "groups": len(plan.groups),
        "trajectories": len(rewards),
        "reward_mean": sum(rewards) / len(rewards),
        "rows": rows,
        "forks": forks,
        "set_aside": dict(_count_by_reason(plan.set_aside)),
        "policies": sorted(policies),
        "data_versions": sorted(versions),
    }


def _distinct(reports: Iterable[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(sorted({value for report in reports for value in report[name]}))


def _count_by_reason(refusals: Iterable[PlannedRefusals]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for refusal in refusals:
        counts[refusal.reason] += len(refusal.keys)
    return counts
