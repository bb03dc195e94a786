"""The version that a run starts from, what it has used up, and whether the run has published before."""

from atdp.trainer.errors import RegistryError
from atdp.trainer.options import TrainOptions, TrainResult
from atdp.trainer.registry import Published, WeightRegistry
from atdp.trainer.trajectory import TrajectoryKey


def already_trained(registry: WeightRegistry, base: Published) -> frozenset[TrajectoryKey]:
    """What reinforcement used up on the way to `base`.

    Not what was imitated: without the attempts that were good enough for that, a group would
    consist of the others.
    """
    ancestors = registry.lineage(base.model, base.version)
    return frozenset().union(*(v.trained_on for v in ancestors if v.manifest["kind"] == "grpo"))


def already_published(
    options: TrainOptions, registry: WeightRegistry, settings: str
) -> TrainResult | None:
    """What a run named by the user came to before, asked for once more.

    Raises RegistryError where the name stands for a run of other settings or length.
    """
    done = registry.published_by(options.model, options.run_name) if options.run_name else None
    if done is None:
        return None
    config = done.manifest["config"]
    if (config["settings"], config["steps"]) != (settings, options.steps):
        raise RegistryError(
            f"run {options.run_name!r} has already published {options.model} {done.version}, with other settings;"
            " choose another name"
        )
    return TrainResult(
        published=done,
        steps=0,
        trajectories_used=done.manifest["trajectories_used"],
        set_aside={},
        refused={},
        metrics=done.manifest["metrics"],
    )


def identity(version: Published) -> str:
    """A version by its name and its bytes."""
    return f"{version.model}/{version.version}:{version.manifest['sha256']['model.safetensors']}"


def too_old(options: TrainOptions, registry: WeightRegistry) -> list[str]:
    """Versions whose data are too stale for the one that is trained."""
    ages = registry.generations(options.model)
    oldest = ages.get(_base_version(registry, options), 0) - options.max_staleness
    return [version for version, age in ages.items() if age < oldest]


def newest(registry: WeightRegistry, options: TrainOptions) -> Published:
    """The version to start from, its files checked against the manifest. Raises RegistryError."""
    return registry.verify(options.model, _base_version(registry, options))


def _base_version(registry: WeightRegistry, options: TrainOptions) -> str:
    """The version asked for: by its name, as the base of the run of that name, or else the newest."""
    done = registry.published_by(options.model, options.run_name) if options.run_name else None
    if options.from_version is None and done is not None and done.parent is not None:
        return done.parent
    versions = registry.versions(options.model)
    if options.from_version is None and not versions:
        raise RegistryError(
            f"model {options.model!r} has no version yet; make one with: atdp train --algo sft"
        )
    return options.from_version or versions[-1]
