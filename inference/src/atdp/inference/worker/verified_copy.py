"""A private copy of a published version, whose every file has the digest of the manifest.

What is verified must be what is loaded. So each file is read once: its bytes are hashed on their
way into a directory that only this process's user can open, and the decoders load the copy. Nobody
who changes the original afterwards changes what is served. Files that the manifest does not name
are not copied, so they cannot influence the model.

A path is refused with the same words whether it exists or not, and no file outside of the roots is
looked at, so the answers of the worker say nothing about other files of the machine.
"""

import hashlib
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from atdp.inference.errors import ModelError, WeightsRefused
from atdp.inference.weights_manifest import (
    MANIFEST_NAME,
    WeightsManifest,
    parse_weights_manifest,
)

_PIECE_BYTES = 1 << 20
_MANIFEST_LIMIT_BYTES = 16 << 20
"""Largest manifest that is read; one with thousands of shards has less than a megabyte."""

_log = logging.getLogger("atdp.inference")


def copy_verified(path: Path, roots: Sequence[Path], into: Path) -> WeightsManifest:
    """Copy the version in the directory `path` into the empty directory `into`.

    `path` must be absolute and, with its symbolic links resolved, below one of `roots`.

    Raises:
        WeightsRefused: the path is not below a root, or the version is not as its manifest says.
    """
    directory = _resolved(path, roots)
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _refused_path(path, repr(error)) from error
    try:
        with _opened(MANIFEST_NAME, folder) as file:
            content = file.read(_MANIFEST_LIMIT_BYTES)
        manifest = parse_weights_manifest(content)
        (into / MANIFEST_NAME).write_bytes(content)
        for name, digest in manifest.files.items():
            if _copy(name, folder, into / name) != digest:
                raise WeightsRefused(
                    f"The file {name} differs from the manifest of {manifest.model} "
                    f"{manifest.version}; restore it from a backup, or publish the weights again."
                )
    except (OSError, ModelError) as error:
        if isinstance(error, WeightsRefused):
            raise
        raise _refused_path(path, str(error)) from error
    finally:
        os.close(folder)
    return manifest


def _resolved(path: Path, roots: Sequence[Path]) -> Path:
    """Return the directory that `path` leads to."""
    real_roots = {root.resolve() for root in roots}
    named_roots = {Path(os.path.normpath(root.absolute())) for root in roots}
    if not path.is_absolute() or not _is_below(
        Path(os.path.normpath(path)), real_roots | named_roots
    ):
        raise _refused_path(path, "it is not below a root")
    try:
        directory = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused_path(path, repr(error)) from error
    if not _is_below(directory, real_roots):
        raise _refused_path(path, f"it leads to {directory}, which is not below a root")
    return directory


def _is_below(path: Path, roots: set[Path]) -> bool:
    return any(root in path.parents for root in roots)


def _refused_path(path: Path, why: str) -> WeightsRefused:
    _log.warning("weights refused", extra={"path": str(path), "why": why})
    return WeightsRefused(
        "model_path is no published version that this worker may load: a directory below one of "
        "its roots, with a manifest.json that names the SHA-256 of every file. "
        "The worker's log has the reason."
    )


def _copy(name: str, folder: int, target: Path) -> str:
    """Copy a file of a directory and return the SHA-256 of what was written."""
    digest = hashlib.sha256()
    with _opened(name, folder) as source, target.open("wb") as copy:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            copy.write(piece)
    return digest.hexdigest()


@contextmanager
def _opened(name: str, folder: int) -> Iterator[BinaryIO]:
    """Open a regular file of a directory; a symbolic link or a pipe is an OSError."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{name} is not a regular file")
        yield file
