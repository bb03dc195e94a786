"""What `atdp train` is asked for, and what it answers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atdp.runtime import Home
from atdp.trainer.algo.advantages import AdvantageKind
from atdp.trainer.algo.losses import Correction
from atdp.trainer.errors import OptionsError
from atdp.trainer.model import ModelShape
from atdp.trainer.registry import Published, TrainingKind, check_name

Progress = Callable[[int, int, Mapping[str, Any]], None]
"""Told after every step: steps done, steps asked for, figures."""

Told = Callable[[str], None]
"""Told once before the first step: which run it is and from which version it starts."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What a user asks of `atdp train`."""

    home: Home
    model: str
    """Name in the weight registry."""
    algo: TrainingKind = "grpo"
    from_version: str | None = None
    """Version to start from; `None`: the newest one, or (sft) a new model."""
    dataset: str | None = None
    """Pinned data; `None` reads what is in the lake now, or follows it."""
    follow: bool = False
    """GRPO: wait for more data to arrive."""
    tenant: str | None = None
    where: str | None = None
    """SQL over the columns of `trajectories`."""
    hold_out: float = 0.25
    """Share of the tasks, at least 0 and below 1, that is not trained on but kept for evaluation:
    `held_out(task_id, share := …)`."""
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
    """Name of the run; `None`: after what decides its result. An interrupted GRPO run of the same
    name is continued."""
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

    def to_json(self) -> dict[str, Any]:
        """As a version's manifest holds them: all that are plain values."""
        return {
            key: value
            for key, value in vars(self).items()
            if isinstance(value, (str, int, float, bool))
        }


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


def reasons(counts: Mapping[str, int]) -> str:
    """Counts of trajectories that were not used, in words."""
    return (
        ", ".join(f"{count} x {reason}" for reason, count in sorted(counts.items()))
        or "nothing in the lake"
    )
