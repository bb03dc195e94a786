"""Checkpoints: weights, optimizer, random state and stream position in one atomic commit.

A trainer that writes these one after another loses or repeats data when it is killed in between.
Here a checkpoint is one directory. It is filled under a temporary name, synced and renamed, and
then the file `LATEST` is changed to name it. At whatever moment the process ends, the run resumes
from a checkpoint whose parts belong together.
"""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from atdp.runtime import clear_directory, sync_directory, sync_tree, write_durably
from atdp.trainer.algo.baseline import Baselines
from atdp.trainer.errors import CheckpointError
from atdp.trainer.model import CausalLM
from atdp.trainer.position import StreamPosition

_KEEP = 2
"""Checkpoints kept: the newest, and the one before for inspection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerState:
    """The state of a run besides tensors."""

    step: int
    """Steps done."""
    position: StreamPosition
    settings: str
    """Hash of the run's settings; a checkpoint is continued only under the same settings."""
    baselines: Baselines = field(default_factory=Baselines)


class CheckpointStore:
    """Checkpoints of one run under `directory`."""

    def __init__(
        self, directory: Path, *, on_point: Callable[[str], None] = lambda _: None
    ) -> None:
        """`on_point` is called between the writes, where a crash matters (tests kill there)."""
        self._directory = directory
        self._on_point = on_point

    def save(self, model: CausalLM, optimizer: torch.optim.Optimizer, state: TrainerState) -> Path:
        """Commit a checkpoint, which is on the disk when this returns; return its directory."""
        target = self._directory / f"step-{state.step:08d}"
        partial = self._directory / f".partial-{state.step:08d}"
        clear_directory(partial)
        tensors = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "torch_rng": torch.get_rng_state(),
        }
        torch.save(tensors, partial / "tensors.pt")
        state_json = {
            "step": state.step,
            "position": state.position.to_json(),
            "settings": state.settings,
            "baselines": state.baselines.to_json(),
        }
        (partial / "state.json").write_text(json.dumps(state_json, indent=1, sort_keys=True))
        sync_tree(partial)
        self._on_point("checkpoint written")
        shutil.rmtree(target, ignore_errors=True)  # of a run that ended before the commit
        partial.rename(target)
        sync_directory(self._directory)
        self._on_point("checkpoint renamed")
        write_durably(self._directory / "LATEST", target.name)
        self._on_point("checkpoint committed")
        self._prune(target.name)
        return target

    def latest(self) -> Path | None:
        """Return the directory of the newest committed checkpoint; None before the first."""
        pointer = self._directory / "LATEST"
        if not pointer.is_file():
            return None
        path = self._directory / pointer.read_text().strip()
        if not (path / "state.json").is_file():
            raise CheckpointError(
                f"{pointer} names {path.name}, which does not exist; "
                "restore it or start another run"
            )
        return path

    def load(
        self, model: CausalLM, optimizer: torch.optim.Optimizer, *, settings: str
    ) -> TrainerState | None:
        """Load the newest checkpoint into `model` and `optimizer`; return None without one.

        Raises:
            CheckpointError: it was made under other settings.
        """
        path = self.latest()
        if path is None:
            return None
        state_json = json.loads((path / "state.json").read_text())
        if state_json["settings"] != settings:
            raise CheckpointError(
                f"{path} was made with other settings; use another run name, or the same settings"
            )
        tensors = torch.load(path / "tensors.pt", weights_only=True)
        model.load_state_dict(tensors["model"])
        optimizer.load_state_dict(tensors["optimizer"])
        torch.set_rng_state(tensors["torch_rng"])
        return TrainerState(
            step=state_json["step"],
            position=StreamPosition.from_json(state_json["position"]),
            settings=state_json["settings"],
            baselines=Baselines.from_json(state_json["baselines"]),
        )

    def _prune(self, newest: str) -> None:
        kept = sorted(path.name for path in self._directory.glob("step-*"))
        for name in kept[:-_KEEP]:
            if name != newest:
                shutil.rmtree(self._directory / name, ignore_errors=True)


def seed_everything(seed: int) -> None:
    """Seed all random generators that training may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
