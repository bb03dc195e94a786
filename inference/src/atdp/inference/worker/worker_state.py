"""Which model the worker serves, and its memory of that over a restart."""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from atdp.inference.errors import ModelError
from atdp.inference.worker.decoder_choice import DecoderKind
from atdp.inference.worker.engine import Engine
from atdp.inference.worker.served_model import ServedModel

_log = logging.getLogger("atdp.inference")


@dataclass(frozen=True, kw_only=True)
class WorkerState:
    """The engine and how models are opened for it."""

    engine: Engine
    kind: DecoderKind
    device: str
    max_rows: int
    remember: Path | None

    def open(self, path: Path, version: str | None) -> ServedModel:
        """Load a model directory (seconds for a large one; call it off the event loop)."""
        return ServedModel.open(
            path, version=version, kind=self.kind, max_rows=self.max_rows, device=self.device
        )

    def load_first(self, path: Path, version: str | None) -> None:
        """Serve from the start; returns when the model serves."""
        self.engine.swap(self.open(path, version)).result()
        self.keep()

    def keep(self) -> None:
        """Write down what is served now."""
        if self.remember is None:
            return
        model = self.engine.model
        self.remember.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.remember.with_suffix(f".{os.getpid()}.tmp")
        fresh.write_text(
            json.dumps({"model_path": str(model.path), "weight_version": model.version})
        )
        fresh.replace(self.remember)

    def remembered(self) -> tuple[Path, str] | None:
        """What the previous process served, when that still exists; a version that is gone is only logged."""
        if self.remember is None or not self.remember.is_file():
            return None
        try:
            kept = json.loads(self.remember.read_text())
            path, version = Path(kept["model_path"]), str(kept["weight_version"])
            ServedModel.open(path, version=version, kind=self.kind, max_rows=1, device=self.device)
        except (ValueError, KeyError, ModelError) as error:
            _log.warning("the weights served before cannot be loaded again: %s", error)
            return None
        return path, version
