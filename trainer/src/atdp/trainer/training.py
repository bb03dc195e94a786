"""`atdp train`: from a dataset or the live stream to a published version.

Composition only: opens the lake and the registry, chooses the data, trains (imitation.py,
reinforcement.py), loads the result. A run is named after what decides its result (see run_name.py),
so the same command goes on with a GRPO run that was killed (see run.py); supervised runs are short
and start again.
"""

from collections.abc import Mapping

import torch

from atdp.inference import register_tokenizer
from atdp.lakehouse import Lake, LakehouseError, TableName, load_dataset, open_lake
from atdp.trainer.base import too_old
from atdp.trainer.errors import SourceError
from atdp.trainer.grpo import reinforce
from atdp.trainer.lake_source import LakeSource
from atdp.trainer.options import Progress, Told, TrainOptions, TrainResult
from atdp.trainer.registry import WeightRegistry
from atdp.trainer.sft import imitate
from atdp.trainer.weight_sync import WeightSyncError, load_into_engine


def train(
    options: TrainOptions,
    *,
    on_progress: Progress = lambda _done, _of, _figures: None,
    on_begin: Told = lambda _: None,
) -> TrainResult:
    """Train, publish, and load the result into an engine where one is named.

    A run that has published is not trained again.

    Raises TrainerError (its subclasses name the boundary) and has published nothing then; only of a
    WeightSyncError is the version published, and the engine does not serve it.
    """
    torch.set_num_threads(options.threads)
    try:
        registry = WeightRegistry(options.home.weights)
        source = _source(options, open_lake(options.home), registry)
    except LakehouseError as error:
        raise SourceError(str(error)) from error
    work = imitate if options.algo == "sft" else reinforce
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
        too_old=() if text else too_old(options, registry),
        learn_from_text=text,
    )
