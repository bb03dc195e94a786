"""GRPO from the options to the published version: base, settings, run and lineage.

The run itself is in grpo_run.py.
"""

import shutil
from pathlib import Path

from atdp.inference import tokenizer_hash
from atdp.trainer.base_version import (
    base_version,
    published_result,
    trained_by_ancestors,
    version_identity,
)
from atdp.trainer.errors import SourceError
from atdp.trainer.groups import GroupRules
from atdp.trainer.grpo_run import GrpoRun, RunHooks
from atdp.trainer.model import load_model, save_model
from atdp.trainer.options import TrainResult, describe_counts
from atdp.trainer.registry import Lineage, Published
from atdp.trainer.run_lock import lock_run
from atdp.trainer.run_name import unpublished_name
from atdp.trainer.run_settings import Pace, RunResult, RunSettings
from atdp.trainer.step import StepRules
from atdp.trainer.training_job import TrainingJob


def train_grpo(job: TrainingJob) -> TrainResult:
    """Train a version further by GRPO on groups of attempts at the same task, and publish it.

    Raises:
        SourceError: no group can be formed.
    """
    options, registry = job.options, job.registry
    base = base_version(registry, options)
    settings = _settings(job, base)
    if (done := published_result(options, registry, settings.hash)) is not None:
        return done
    name = options.run_name or unpublished_name(
        registry, options.model, "grpo", base, settings.hash
    )
    directory = options.home.root / "runs" / options.model / name
    with lock_run(directory):
        return _train(job, base, settings, directory)


def _settings(job: TrainingJob, base: Published) -> RunSettings:
    options = job.options
    return RunSettings(
        base=version_identity(base),
        version_now=job.registry.generations(options.model)[base.version],
        groups=GroupRules(
            size=options.group_size,
            max_staleness=options.max_staleness,
            tokenizer=tokenizer_hash(base.path / "tokenizer.json"),
        ),
        step=StepRules(correction=options.correction, minibatches=options.minibatches),
        advantage=options.advantage,
        groups_per_step=options.groups_per_step,
        learning_rate=options.rate,
        seed=options.seed,
        selection=options.selection,
        already_trained=trained_by_ancestors(job.registry, base),
    )


def _train(
    job: TrainingJob, base: Published, settings: RunSettings, directory: Path
) -> TrainResult:
    options, registry = job.options, job.registry
    model = load_model(base.path)
    run = GrpoRun(
        model=model,
        source=job.source,
        settings=settings,
        version_numbers=lambda: registry.generations(options.model),
        directory=directory,
        hooks=RunHooks(on_step=job.report_step),
    )
    job.on_begin(_beginning(job, base, directory, steps_done=run.step))
    pace = Pace(
        steps=options.steps,
        checkpoint_every=options.checkpoint_every,
        follow=options.follow,
        give_up_after_s=options.give_up_after_s,
    )
    result = run.run(pace)
    if not result.steps:
        raise SourceError(
            f"no group to train on: {describe_counts({**result.refused, **result.set_aside})}; "
            "groups need at least 2 rewarded attempts at the same task, "
            f"produced by {base.version} or a recent ancestor"
        )
    published = registry.publish(
        options.model,
        lambda path: save_model(model, path, tokenizer_from=base.path),
        _lineage(job, base, settings, directory.name, result),
    )
    # Plans and reports stay, since they are part of the version's lineage.
    shutil.rmtree(directory / "checkpoints", ignore_errors=True)
    return TrainResult(
        published=published,
        steps=result.steps,
        trajectories_used=len(set(result.trained)),
        set_aside=result.set_aside,
        refused=result.refused,
        metrics=result.last_metrics,
    )


def _beginning(job: TrainingJob, base: Published, directory: Path, *, steps_done: int) -> str:
    text = f"run {directory.name}, from {base.model} {base.version}"
    if not job.options.from_version:
        text += ", the newest version published (choose another with --from)"
    if steps_done:
        text += f"; continues after step {steps_done}"
    return text


def _lineage(
    job: TrainingJob, base: Published, settings: RunSettings, run_id: str, result: RunResult
) -> Lineage:
    return Lineage(
        run_id=run_id,
        kind="grpo",
        parent=base.version,
        snapshots=result.snapshots,
        policy_versions=result.policies,
        data_versions=result.data_versions,
        trained_on=result.tasks,
        config={"settings": settings.hash, **job.options.to_json()},
        metrics=result.last_metrics,
    )
