"""The versions of the code and of the names model that decided.

Every audit record names them beside the hash of the policy, so that a decision can be repeated with
the same code, model and rules.
"""

import functools
import hashlib
import importlib.util
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Final

from atdp.runtime import file_sha256

_DISTRIBUTIONS: Final = (
    "atdp-governance",
    "presidio-analyzer",
    "phonenumbers",
    "tldextract",
    "regex",
    "tokenizers",
)
_DIGEST_CHARS: Final = 16
"""Hex digits of a model's digest that are written."""


@functools.cache
def engine_version() -> str:
    """Return for example `atdp-governance 0.1.0; presidio-analyzer 2.2.366; …`."""
    return "; ".join(f"{name} {version(name)}" for name in _DISTRIBUTIONS)


def engine_with_model(model: str) -> str:
    """Return the versions and the digest of the files of `model`, which a policy names.

    A model that is trained anew under the same name has another digest.
    """
    kind, _, where = model.partition(":")
    files = _shipped_files() if kind == "atdp" else _files_of(where)
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return f"{engine_version()}; {model} sha256:{digest[:_DIGEST_CHARS]}"


def _shipped_files() -> list[str]:
    with resources.as_file(resources.files("atdp.governance.names") / "names.npz") as file:
        return [file_sha256(file)]


def _files_of(package_or_folder: str) -> list[str]:
    """Return the name and SHA-256 of each file of an installed package or a folder."""
    folder = Path(package_or_folder)
    if package_or_folder.isidentifier() and (found := importlib.util.find_spec(package_or_folder)):
        folder = Path((found.submodule_search_locations or [package_or_folder])[0])
    return [
        f"{file.relative_to(folder)} {file_sha256(file)}"
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
