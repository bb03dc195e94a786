"""The answer of an engine to SGLang's `/model_info`: the model and the version that it serves.

The name of a version does not identify weights, since every model has a `v1`. The engine also
reports the path that it loaded. For a version of the weight registry that path is the directory of
the version, whoever loaded it; weights outside of the registry are identified by the model's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineInfo:
    """The fields of `/model_info` that ATDP reads; None where the engine does not report one.

    All fields are None while the engine has no weights.
    """

    weight_version: str | None = None
    model_path: str | None = None
    served_model_name: str | None = None
    tokenizer_path: str | None = None
    tokenizer_hash: str | None = None
    """SHA-256 (hex) of `tokenizer.json`. The embedded worker reports it, SGLang does not."""
    template_hash: str | None = None
    """SHA-256 (hex) of the chat template. The embedded worker reports it, SGLang does not."""
    weights_sha256: str | None = None
    """Digest of the weights. The embedded worker verifies and reports it, SGLang does not."""

    def serves(self, registry: Path, model: str, version: str, expected_sha256: str | None) -> bool:
        """Return True when the engine serves this version of this model.

        `registry` is the root of the weight registry. `expected_sha256` is the digest of the
        version's weights; None: it is not known, so the engine's digest is not compared.
        """
        if self.weight_version != version:
            return False
        if expected_sha256 is not None and self.weights_sha256 not in {None, expected_sha256}:
            return False
        directory = registry / model / version
        if directory.is_dir():
            return (
                self.model_path is not None
                and Path(self.model_path).resolve() == directory.resolve()
            )
        return self.served_model_name == model


def parse_engine_info(document: Mapping[str, object]) -> EngineInfo:
    """Read the JSON object of a `/model_info` answer; values that are empty or no text are None."""
    texts: dict[str, str] = {}
    for field in fields(EngineInfo):
        value = document.get(field.name)
        if isinstance(value, str) and value:
            texts[field.name] = value
    return EngineInfo(**texts)
