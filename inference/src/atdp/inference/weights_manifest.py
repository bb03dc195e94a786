"""The manifest of a published version, as far as an engine and its clients read it.

`manifest.json` beside the weights names the model, the version, and the SHA-256 of every file. The
digest of the weights is the digest of the only `*.safetensors` file. Several shards are hashed as
the lines `name NUL digest` in the order of their names.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from atdp.inference.errors import ModelError
from atdp.runtime import file_sha256

MANIFEST_NAME = "manifest.json"

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsManifest:
    """The identity of one version: its names, and the SHA-256 (hex) of each of its files."""

    model: str
    version: str
    files: Mapping[str, str]

    @property
    def weights_sha256(self) -> str:
        """The digest of the weights."""
        return weights_digest(self.files)


def parse_weights_manifest(content: bytes) -> WeightsManifest:
    """Read the content of a `manifest.json`.

    Raises:
        ModelError: it is not a manifest with names of files, their digests, and weights. The
            message quotes nothing of it.
    """
    try:
        document = json.loads(content)
        model, version, files = document["model"], document["version"], document["sha256"]
        valid = (
            isinstance(model, str)
            and isinstance(version, str)
            and bool(model and version)
            and all(
                _is_file_name(name) and _SHA256.fullmatch(digest) for name, digest in files.items()
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ModelError(
            f"{MANIFEST_NAME} does not name the model, the version, and the SHA-256 of every file"
        )
    weights_digest(files)
    return WeightsManifest(model=model, version=version, files=dict(files))


def read_weights_manifest(directory: Path) -> WeightsManifest:
    """Read the manifest of a version's directory.

    Raises:
        ModelError: there is none, or it is not a manifest.
    """
    try:
        content = (directory / MANIFEST_NAME).read_bytes()
    except OSError as error:
        raise ModelError(f"{directory} has no {MANIFEST_NAME} that can be read") from error
    return parse_weights_manifest(content)


def write_weights_manifest(directory: Path, facts: Mapping[str, object]) -> dict[str, object]:
    """Write the manifest of a directory that holds all files of a version; return its content.

    `facts` are its entries beside the digests of the files; `model` and `version` are among them.

    Raises:
        OSError: a file cannot be read, or the manifest cannot be written.
    """
    files = {
        file.name: file_sha256(file)
        for file in sorted(directory.iterdir())
        if file.name != MANIFEST_NAME
    }
    manifest = {**facts, "sha256": files}
    (directory / MANIFEST_NAME).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return manifest


def weights_digest(files: Mapping[str, str]) -> str:
    """Return the digest of the weights among files with these SHA-256 digests.

    Raises:
        ModelError: none of them is a `*.safetensors` file.
    """
    shards = sorted(name for name in files if name.endswith(".safetensors"))
    if not shards:
        raise ModelError("there is no *.safetensors file, so there are no weights")
    if len(shards) == 1:
        return files[shards[0]]
    lines = "".join(f"{shard}\0{files[shard]}\n" for shard in shards)
    return hashlib.sha256(lines.encode()).hexdigest()


def weights_sha256(directory: Path) -> str:
    """Return the digest of the weights that lie in a directory now.

    Raises:
        ModelError: it holds no `*.safetensors` file, or one cannot be read.
    """
    try:
        return weights_digest(
            {shard.name: file_sha256(shard) for shard in directory.glob("*.safetensors")}
        )
    except OSError as error:
        raise ModelError(f"the weights in {directory} cannot be read: {error}") from error
    except ModelError as error:
        raise ModelError(f"{directory} holds no *.safetensors file: {error}") from error


def _is_file_name(name: str) -> bool:
    return Path(name).name == name and name not in {"", ".", ".."} and "\0" not in name
