"""A GRPO run: which version, which settings, what its ancestors used up; then run.py, and the result published with its lineage."""

import shutil
from pathlib import Path

from atdp.inference import tokenizer_hash
from atdp.trainer.base import already_published, already_trained, identity, newest
from atdp.trainer.errors import SourceError
from atdp.trainer.groups import GroupRules
from atdp.trainer.model import CausalLM, load_model, save_model
from atdp.trainer.options import Progress, Told, TrainOptions, TrainResult, reasons
from atdp.trainer.registry import Lineage, Published, WeightRegistry
from atdp.trainer.run import Pace, RunSettings, TrainRun
from atdp.trainer.run_name import only_process, unpublished_name
from atdp.trainer.source import TrajectorySource
from atdp.trainer.step import StepRules


def reinforce(
    options: TrainOptions,
    registry: WeightRegistry,
    source: TrajectorySource,
    on_progress: Progress,
    on_begin: Told,
) -> TrainResult:
    """Train a version further by GRPO on groups of attempts at the same task; publish the result.

    Raises SourceError when no group can be formed.
    """
    base = newest(registry, options)
    settings = RunSettings(
        base=identity(base),
        version_now=registry.generations(options.model)[base.version],
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
        already_trained=already_trained(registry, base),
    )
    if (done := already_published(options, registry, settings.hash)) is not None:
        return done
    name = options.run_name or unpublished_name(
        registry, options.model, "grpo", base, settings.hash
    )
    directory = options.home.root / "runs" / options.model / name
    with only_process(directory):
        return _run(options, registry, source, base, settings, directory, on_progress, on_begin)


def _run(
    options: TrainOptions,
    registry: WeightRegistry,
    source: TrajectorySource,
    base: Published,
    settings: RunSettings,
    directory: Path,
    on_progress: Progress,
    on_begin: Told,
) -> TrainResult:
    model: CausalLM = load_model(base.path)
    run = TrainRun(
        model=model,
        source=source,
        settings=settings,
        version_numbers=lambda: registry.generations(options.model),
        directory=directory,
        on_step=lambda n, figures: on_progress(n, options.steps, figures),
    )
    chosen = (
        ""
        if options.from_version
        else ", the newest version published (choose another with --from)"
    )
    on_begin(
        f"run {directory.name}, from {base.model} {base.version}{chosen}"
        + (f"; goes on after step {run.step}" if run.step else "")
    )
    pace = Pace(
        steps=options.steps,
        checkpoint_every=options.checkpoint_every,
        follow=options.follow,
        give_up_after_s=options.give_up_after_s,
    )
    result = run.run(pace)
    if not result.steps:
        raise SourceError(
            "no group to train on: "
            + reasons({**result.refused, **result.set_aside})
            + f"; groups need at least 2 rewarded attempts at the same task, produced by {base.version} or a recent ancestor"
        )
    lineage = Lineage(
        run_id=directory.name,
        kind="grpo",
        parent=base.version,
        snapshots=result.snapshots,
        policy_versions=result.policies,
        data_versions=result.data_versions,
        trained_on=result.tasks,
        config={"settings": settings.hash, **options.to_json()},
        metrics=result.last_figures,
    )
    published = registry.publish(
        options.model, lambda path: save_model(model, path, tokenizer_from=base.path), lineage
    )
    shutil.rmtree(
        directory / "checkpoints", ignore_errors=True
    )  # plans and figures stay: they are the lineage
    return TrainResult(
        published=published,
        steps=result.steps,
        trajectories_used=len(set(result.trained)),
        set_aside=result.set_aside,
        refused=result.refused,
        metrics=result.last_figures,
    )
