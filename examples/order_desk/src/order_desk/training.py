"""Training inside the demo: the platform's own trainer with the demo's sizes, and what it says it trained on.

It runs in the demo's process, on one thread: a process of its own would cost three seconds of
imports each time.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from transformers.utils import logging as transformers_logging

from atdp.runtime import Home
from atdp.trainer import Published, TrainOptions, TrainResult, WeightRegistry, train
from order_desk.settings import AGENTS_SQL, HELD_OUT, MODEL, DemoSettings

OnStep = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A published version and what its run did."""

    published: Published
    steps: int
    trajectories_used: int
    rewards: tuple[float, ...]
    """Mean reward of the groups, by step."""
    set_aside: dict[str, int]
    refused: dict[str, int]


def warm_start(home: Home, settings: DemoSettings, on_step: OnStep) -> TrainResult:
    """Supervised training of a new model on the logs that landed."""
    return train(
        TrainOptions(
            home=home,
            model=MODEL,
            algo="sft",
            hold_out=0.0,  # the clerks' tasks are not the agents'
            steps=settings.sft_steps,
            batch=settings.sft_batch,
            learning_rate=settings.sft_learning_rate,
            shape=settings.shape,
            seed=settings.seed,
        ),
        on_progress=lambda done, _of, _figures: on_step(done),
    )


def reinforce(
    home: Home,
    settings: DemoSettings,
    *,
    base: str,
    phase: str,
    name: str,
    learning_rate: float,
    on_step: OnStep,
) -> TrainedRun:
    """GRPO from version `base` on the traffic of one phase, held-out tasks excepted."""
    transformers_logging.disable_progress_bar()  # it would draw over ours
    result = train(
        TrainOptions(
            home=home,
            model=MODEL,
            algo="grpo",
            from_version=base,
            where=f"{AGENTS_SQL} AND starts_with(trajectory_id, '{phase}.')",
            hold_out=HELD_OUT,
            steps=settings.most_steps,
            group_size=settings.attempts,
            groups_per_step=settings.groups_per_step,
            learning_rate=learning_rate,
            seed=settings.seed,
            run_name=name,
            checkpoint_every=4,
        ),
        on_progress=lambda done, _of, _figures: on_step(done),
    )
    folder = home.root / "runs" / MODEL / name
    return TrainedRun(
        published=result.published,
        steps=result.steps,
        trajectories_used=result.trajectories_used,
        rewards=tuple(
            json.loads(file.read_text())["reward_mean"]
            for file in sorted(folder.glob("steps/*.json"))
        ),
        set_aside=dict(result.set_aside),
        refused=dict(result.refused),
    )


def lineage(home: Home, version: str) -> list[Published]:
    """A version and its ancestors, newest first."""
    return WeightRegistry(home.weights).lineage(MODEL, version)


def published_versions(home: Home) -> list[Published]:
    """Every version of the demo's model, rejected candidates too."""
    registry = WeightRegistry(home.weights)
    return [registry.get(MODEL, version) for version in registry.versions(MODEL)]
