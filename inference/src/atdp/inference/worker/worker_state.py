"""The model that the worker serves, and the file that keeps it over a restart."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from atdp.inference.errors import ModelError
from atdp.inference.worker.decoder_choice import DecoderKind
from atdp.inference.worker.engine import DecodingEngine
from atdp.inference.worker.served_model import ServedModel
from atdp.runtime import write_durably

_log = logging.getLogger("atdp.inference")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOptions:
    """The settings of one worker."""

    model_dir: Path | None = None
    """Model directory to serve from the start. Without it the worker starts empty and takes its
    first weights by `/update_weights_from_disk`."""
    weight_version: str | None = None
    """Version of the weights in `model_dir`; None: the one in its manifest."""
    decoder: DecoderKind = "auto"
    device: str = "cpu"
    """Torch device of the transformers decoder."""
    max_rows: int = 64
    """Sequences decoded together."""
    seed: int | None = None
    """Seed of the draws; None: from the system."""
    state_file: Path | None = None
    """File that keeps what is served, so that a restarted process serves the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerState:
    """The engine, and how models are opened for it."""

    engine: DecodingEngine
    options: WorkerOptions

    def open(self, path: Path, version: str | None) -> ServedModel:
        """Load a model directory; this takes seconds for a large one."""
        options = self.options
        return ServedModel.open(
            path,
            version=version,
            kind=options.decoder,
            max_rows=options.max_rows,
            device=options.device,
        )

    def load_first(self) -> None:
        """Load the model of the options, or else the one of the previous process, if any.

        Raises:
            ModelError: the model of the options cannot be served.
        """
        options = self.options
        if options.model_dir is not None:
            first: tuple[Path, str | None] | None = (options.model_dir, options.weight_version)
        else:
            first = self.saved()
        if first is not None:
            self.engine.swap(self.open(*first)).result()
            self.save()

    def save(self) -> None:
        """Write what is served now to the state file."""
        if self.options.state_file is None:
            return
        model = self.engine.model
        content = {"model_path": str(model.path), "weight_version": model.version}
        write_durably(self.options.state_file, json.dumps(content))

    def saved(self) -> tuple[Path, str] | None:
        """Return the directory and version that the previous process served.

        None when there is none. When it cannot be loaded any more, that is logged.
        """
        file = self.options.state_file
        if file is None or not file.is_file():
            return None
        try:
            content = json.loads(file.read_text())
            path, version = Path(content["model_path"]), str(content["weight_version"])
            ServedModel.open(
                path,
                version=version,
                kind=self.options.decoder,
                max_rows=1,
                device=self.options.device,
            )
        except (ValueError, KeyError, ModelError) as error:
            _log.warning("the weights served before cannot be loaded again: %s", error)
            return None
        return path, version
