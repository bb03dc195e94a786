"""The model that the worker serves, and the file that keeps it over a restart.

Weights are loaded from a verified copy only (`verified_copy`). The name of a version is bound to
the digest of its weights when it is loaded for the first time, and this is kept over restarts: the
same name with other weights is refused, so what a generation says about its weights stays true.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from atdp.inference.errors import ModelError, WeightsRefused
from atdp.inference.weights_manifest import WeightsManifest
from atdp.inference.worker.decoder_choice import DecoderKind
from atdp.inference.worker.engine import DecodingEngine
from atdp.inference.worker.served_model import ServedModel
from atdp.inference.worker.verified_copy import copy_verified
from atdp.runtime import clear_directory, write_durably

_log = logging.getLogger("atdp.inference")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOptions:
    """The settings of one worker."""

    token: str = field(repr=False)
    """Every request but a probe must carry it."""
    roots: tuple[Path, ...]
    """Directories below which published versions may be loaded."""
    trusted_hosts: tuple[str, ...] = ()
    """Names, beside those of the loopback interface, under which the worker may be asked."""
    model_dir: Path | None = None
    """Version to serve from the start. Without it the worker starts empty and takes its first
    weights by `/update_weights_from_disk`."""
    decoder: DecoderKind = "auto"
    device: str = "cpu"
    """Torch device of the transformers decoder."""
    max_rows: int = 64
    """Sequences decoded together."""
    seed: int | None = None
    """Seed of the draws; None: from the system."""
    state_file: Path | None = None
    """File that keeps what is served, so that a restarted process serves the same. Weights are
    copied to a folder beside it while they are loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedWeights:
    """The content of the state file: the version that is served, and the digests of all versions.

    Everything is None or empty before the first weights.
    """

    path: Path | None = None
    version: str | None = None
    weights_sha256: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    """The digest of the weights of every version that was loaded, by `<model>/<version>`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerState:
    """The engine, and how models are opened for it."""

    engine: DecodingEngine
    options: WorkerOptions
    _digests: dict[str, str] = field(default_factory=dict)

    def open(
        self, path: Path, *, version: str | None = None, weights_sha256: str | None = None
    ) -> ServedModel:
        """Load a published version, and bind its name to the digest of its weights.

        This takes seconds for a large one.

        `version` and `weights_sha256` are what the caller expects; None: what the manifest says.

        Raises:
            WeightsRefused: it may not be loaded, or is not what the caller expects.
            ModelError: it is a model that cannot be served.
        """
        options = self.options
        with TemporaryDirectory(prefix="atdp-weights-", dir=self._copies) as name:
            copy = Path(name)
            manifest = copy_verified(path, options.roots, copy)
            self._check(manifest, version, weights_sha256)
            model = ServedModel.open(
                copy, kind=options.decoder, max_rows=options.max_rows, device=options.device
            )
        self._digests[_key(manifest)] = manifest.weights_sha256
        self.save()
        return replace(model, path=path.resolve(), weights_sha256=manifest.weights_sha256)

    def load_first(self) -> None:
        """Load the model of the options, or else the one of the previous process, if any.

        When that one cannot be loaded any more, this is logged, and the worker starts empty.

        Raises:
            ModelError: the model of the options cannot be served.
        """
        if self._copies is not None:
            clear_directory(self._copies)  # a process that was killed may have left a copy
        saved = self._read()
        self._digests.update(saved.digests)
        first: ServedModel | None = None
        if self.options.model_dir is not None:
            first = self.open(self.options.model_dir)
        elif saved.path is not None:
            try:
                first = self.open(
                    saved.path, version=saved.version, weights_sha256=saved.weights_sha256
                )
            except ModelError as error:
                _log.warning("the weights served before cannot be loaded again: %s", error)
        if first is not None:
            self.engine.swap(first).result()
            self.save()

    def save(self) -> None:
        """Write what is served now, and the digests, to the state file."""
        if self.options.state_file is None:
            return
        model = self.engine.model if self.engine.loaded else None
        content = {
            "model_path": None if model is None else str(model.path),
            "weight_version": None if model is None else model.version,
            "weights_sha256": None if model is None else model.weights_sha256,
            "digests": self._digests,
        }
        write_durably(self.options.state_file, json.dumps(content), mode=0o600)

    @property
    def _copies(self) -> Path | None:
        """The folder for copies; None: that of the system."""
        file = self.options.state_file
        return None if file is None else file.with_suffix(".loading")

    def _check(
        self, manifest: WeightsManifest, version: str | None, weights_sha256: str | None
    ) -> None:
        if version not in {None, manifest.version}:
            raise WeightsRefused(
                f"The manifest names the version {manifest.version}, not the weight_version "
                "of the request; a version is served under its own name."
            )
        if weights_sha256 not in {None, manifest.weights_sha256}:
            raise WeightsRefused(
                f"The weights have the digest {manifest.weights_sha256}, not the expected one."
            )
        if self._digests.get(_key(manifest)) not in {None, manifest.weights_sha256}:
            raise WeightsRefused(
                f"{manifest.model} {manifest.version} was served with other weights before, and a "
                "version names one set of weights for ever; publish these as a new version."
            )

    def _read(self) -> SavedWeights:
        file = self.options.state_file
        if file is None or not file.is_file():
            return SavedWeights()
        try:
            content = json.loads(file.read_text("utf-8"))
            path = content["model_path"]
            return SavedWeights(
                path=None if path is None else Path(path),
                version=content["weight_version"],
                weights_sha256=content.get("weights_sha256"),
                digests=dict(content.get("digests", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{file} is damaged ({type(error).__name__}): restore it from your backup, or "
                "remove it; then the worker starts empty, and versions that it has served may be "
                "loaded with other weights"
            ) from error


def _key(manifest: WeightsManifest) -> str:
    return f"{manifest.model}/{manifest.version}"
