"""``atdp train``: from a dataset or the live stream to a published version.

Composition only: opens the lake and the registry, chooses source, base and rules, runs, publishes with lineage. A run is named after what
decides its result (see run_name.py), so the same command goes on with a GRPO run that was killed (see run.py); supervised runs are short
and start again.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from atdp.ingest.home import Home
from atdp.lakehouse.datasets import load_dataset
from atdp.lakehouse.errors import LakehouseError
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.tables import TableName
from atdp.trainer.algo.advantages import AdvantageKind
from atdp.trainer.algo.losses import Correction
from atdp.trainer.chat import ChatTemplate, default_template
from atdp.trainer.errors import OptionsError, RegistryError, SourceError
from atdp.trainer.groups import GroupRules
from atdp.trainer.lake_source import LakeSource
from atdp.trainer.model import CausalLM, ModelShape, load_model, new_model, save_model, save_tokenizer
from atdp.trainer.position import Position
from atdp.trainer.registry import Lineage, Published, TrainingKind, WeightRegistry, check_name
from atdp.trainer.run import Pace, RunSettings, TrainRun
from atdp.trainer.run_name import only_process, settings_hash, unpublished_name
from atdp.trainer.sft import SftRules, conversation_row, rendered_texts, supervise
from atdp.trainer.source import TrajectorySource
from atdp.trainer.step import StepRules
from atdp.trainer.tokenizer import TURN_END, register_tokenizer, tokenizer_hash, train_tokenizer
from atdp.trainer.trajectory import TrajectoryKey
from atdp.trainer.weight_sync import WeightSyncError, load_into_engine

Progress = Callable[[int, int, Mapping[str, Any]], None]
"""Told after every step: steps done, steps asked for, figures."""

Told = Callable[[str], None]
"""Told once before the first step: which run it is and from which version it starts."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What a user asks of ``atdp train``."""

    home: Home
    model: str
    """Name in the weight registry."""
    algo: TrainingKind = "grpo"
    from_version: str | None = None
    """Version to start from; ``None``: the newest one, or (sft) a new model."""
    dataset: str | None = None
    """Pinned data; ``None`` reads what is in the lake now, or follows it."""
    follow: bool = False
    """GRPO: wait for more data to arrive."""
    tenant: str | None = None
    where: str | None = None
    """SQL over the columns of ``trajectories``."""
    hold_out: float = 0.25
    """Share of the tasks, at least 0 and below 1, that is not trained on but kept for evaluation: `held_out(task_id, share := …)`."""
    steps: int = 100
    group_size: int = 8
    groups_per_step: int = 8
    max_staleness: int = 4
    advantage: AdvantageKind = "grpo"
    correction: Correction = "bypass"
    minibatches: int = 1
    learning_rate: float | None = None
    """Above 0. Default 1e-4 (grpo) or 2e-3 (sft): for models of about a million weights."""
    batch: int = 64
    """SFT: conversations per step."""
    vocabulary: int = 512
    """SFT of a new model: size of its tokenizer."""
    shape: ModelShape = field(default_factory=ModelShape)
    seed: int = 0
    threads: int = 1
    """One thread gives the same bits every time; more are faster where cores are free."""
    run_name: str | None = None
    """Name of the run; ``None``: after what decides its result. An interrupted GRPO run of the same name is continued."""
    checkpoint_every: int = 10
    give_up_after_s: float = 60.0
    engine_url: str | None = None
    """Load the result into this inference server."""

    def __post_init__(self) -> None:
        """Check what could otherwise be noticed only after hours of training."""
        check_name("model", self.model)
        if self.run_name is not None:
            check_name("run", self.run_name)
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise OptionsError(f"the learning rate must be above 0, not {self.learning_rate:g}")
        if not 0 <= self.hold_out < 1:
            raise OptionsError(
                f"the share of tasks to hold out must be at least 0 and below 1, not {self.hold_out:g}"
            )

    @property
    def rate(self) -> float:
        """The learning rate."""
        return _RATES[self.algo] if self.learning_rate is None else self.learning_rate

    @property
    def selection(self) -> str:
        """Which data, in words."""
        return f"dataset={self.dataset} tenant={self.tenant} where={self.where} hold_out={self.hold_out}"


_RATES: Mapping[TrainingKind, float] = {"grpo": 1e-4, "sft": 2e-3}


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What came of it."""

    published: Published
    steps: int
    trajectories_used: int
    """Distinct trajectories that were trained on."""
    set_aside: Mapping[str, int]
    refused: Mapping[str, int]
    metrics: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "model": self.published.model,
            "version": self.published.version,
            "parent": self.published.parent,
            "path": str(self.published.path),
            "steps": self.steps,
            "trajectories_used": self.trajectories_used,
            "set_aside": dict(self.set_aside),
            "refused": dict(self.refused),
            "metrics": dict(self.metrics),
        }


def train(
    options: TrainOptions,
    *,
    on_progress: Progress = lambda _done, _of, _figures: None,
    on_begin: Told = lambda _: None,
) -> TrainResult:
    """Train, publish, and load the result into an engine where one is named. A run that has published is not trained again.

    Raises TrainerError (its subclasses name the boundary) and has published nothing then; only of a WeightSyncError is the version
    published, and the engine does not serve it.
    """
    torch.set_num_threads(options.threads)
    try:
        registry = WeightRegistry(options.home.weights)
        source = _source(options, open_lake(options.home), registry)
    except LakehouseError as error:
        raise SourceError(str(error)) from error
    work = _sft if options.algo == "sft" else _grpo
    result = work(options, registry, source, on_progress, on_begin)
    published = result.published
    register_tokenizer(options.home.tokenizers, published.path / "tokenizer.json")
    if options.engine_url is not None:
        try:
            load_into_engine(options.engine_url, published)
        except WeightSyncError as error:
            raise WeightSyncError(
                f"{published.model} {published.version} is published, but the engine did not load it: {error}. Give the same"
                f" command with --run {published.manifest['run_id']} to load it without training again"
            ) from error
    return result


def _source(options: TrainOptions, lake: Lake, registry: WeightRegistry) -> LakeSource:
    text = options.algo == "sft"
    split = f"NOT held_out(task_id, share := {options.hold_out!r})" if options.hold_out else None
    snapshots: Mapping[TableName, int] | None
    if options.dataset is None:
        snapshots, tenant, parts = (
            None if options.follow else lake.snapshots(),
            options.tenant,
            [options.where],
        )
    else:
        dataset = load_dataset(lake, options.dataset)
        snapshots, tenant = dataset.snapshots, options.tenant or dataset.tenant
        parts = [dataset.where, options.where]
    where = " AND ".join(f"(\n{part}\n)" for part in (*parts, split) if part) or None
    return LakeSource(
        lake,
        tenant=tenant,
        where=where,
        snapshots=snapshots,
        too_old=() if text else _too_old(options, registry),
        learn_from_text=text,
    )


# --- supervised ---


def _sft(
    options: TrainOptions,
    registry: WeightRegistry,
    source: TrajectorySource,
    on_progress: Progress,
    on_begin: Told,
) -> TrainResult:
    base = _newest(registry, options) if options.from_version is not None else None
    rules = SftRules(steps=options.steps, batch=options.batch, learning_rate=options.rate, seed=options.seed)
    new = (asdict(options.shape), options.vocabulary)
    settings = settings_hash(
        asdict(replace(rules, steps=0)), options.selection, _identity(base) if base else new
    )
    if (done := _already_published(options, registry, settings)) is not None:
        return done
    name = options.run_name or unpublished_name(registry, options.model, "sft", base, settings)
    on_begin(f"run {name}, " + (f"from {base.model} {base.version}" if base else "a new model"))
    poll = source.poll(Position())
    told = [t for t in poll.trajectories if any(message.get("role") == "assistant" for message in t.messages)]
    if not told:
        raise SourceError(
            f"no governed conversation to learn from ({_reasons(poll.refused)}); import or record some first"
        )
    with tempfile.TemporaryDirectory(prefix="atdp-tokenizer-") as scratch:
        if base is None:
            tokenizer_from = Path(scratch)
            template = ChatTemplate(default_template(), eos_token=TURN_END)
            trained = train_tokenizer(rendered_texts(told, template), options.vocabulary)
            save_tokenizer(trained, tokenizer_from, context=options.shape.context)
            model = new_model(options.shape, trained, seed=options.seed)
        else:
            tokenizer_from = base.path
            model = load_model(base.path)
        template, tokenizer = _language(tokenizer_from)
        rows = [conversation_row(t.messages, t.tools, template, tokenizer) for t in told]
        metrics = supervise(
            model, rows, rules, on_step=lambda n, figures: on_progress(n, options.steps, figures)
        )
        lineage = Lineage(
            run_id=name,
            kind="sft",
            parent=base.version if base else None,
            snapshots=poll.snapshots,
            policy_versions=tuple(sorted({t.policy for t in told if t.policy})),
            trained_on={t.key: t.task for t in told},
            config={"settings": settings, **_plain(options), **asdict(rules)},
            metrics=metrics,
        )
        published = registry.publish(
            options.model, lambda path: save_model(model, path, tokenizer_from=tokenizer_from), lineage
        )
    return TrainResult(
        published=published,
        steps=options.steps,
        trajectories_used=len(told),
        set_aside={},
        refused=poll.refused,
        metrics=metrics,
    )


def _language(directory: Path) -> tuple[ChatTemplate, Tokenizer]:
    import json

    settings = json.loads((directory / "tokenizer_config.json").read_text())
    template = ChatTemplate(settings.get("chat_template") or default_template(), eos_token=TURN_END)
    return template, Tokenizer.from_file(str(directory / "tokenizer.json"))


# --- reinforcement ---


def _grpo(
    options: TrainOptions,
    registry: WeightRegistry,
    source: TrajectorySource,
    on_progress: Progress,
    on_begin: Told,
) -> TrainResult:
    base = _newest(registry, options)
    settings = RunSettings(
        base=_identity(base),
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
        already_trained=_already_trained(registry, base),
    )
    if (done := _already_published(options, registry, settings.hash)) is not None:
        return done
    name = options.run_name or unpublished_name(registry, options.model, "grpo", base, settings.hash)
    directory = options.home.root / "runs" / options.model / name
    with only_process(directory):
        return _reinforce(options, registry, source, base, settings, directory, on_progress, on_begin)


def _reinforce(
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
    chosen = "" if options.from_version else ", the newest version published (choose another with --from)"
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
            + _reasons({**result.refused, **result.set_aside})
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
        config={"settings": settings.hash, **_plain(options)},
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


def _already_trained(registry: WeightRegistry, base: Published) -> frozenset[TrajectoryKey]:
    """What reinforcement used up on the way to ``base``.

    Not what was imitated: without the attempts that were good enough for that, a group would consist of the others.
    """
    ancestors = registry.lineage(base.model, base.version)
    return frozenset().union(*(v.trained_on for v in ancestors if v.manifest["kind"] == "grpo"))


def _already_published(options: TrainOptions, registry: WeightRegistry, settings: str) -> TrainResult | None:
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


def _identity(version: Published) -> str:
    return f"{version.model}/{version.version}:{version.manifest['sha256']['model.safetensors']}"


def _too_old(options: TrainOptions, registry: WeightRegistry) -> list[str]:
    """Versions whose data are too stale for the one that is trained."""
    ages = registry.generations(options.model)
    oldest = ages.get(_base_version(registry, options), 0) - options.max_staleness
    return [version for version, age in ages.items() if age < oldest]


def _newest(registry: WeightRegistry, options: TrainOptions) -> Published:
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


def _reasons(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{count} x {reason}" for reason, count in sorted(counts.items())) or "nothing in the lake"
    )


def _plain(options: TrainOptions) -> dict[str, Any]:
    """Options as manifest values."""
    return {key: value for key, value in vars(options).items() if isinstance(value, (str, int, float, bool))}
