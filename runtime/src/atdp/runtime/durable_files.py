"""Files that hold either the old or the new version after a crash, never something between."""

import os
import shutil
from pathlib import Path


def write_durably(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Replace the file `path` by `content`, which is on the disk when this returns.

    Missing parent folders are made. `mode` is the new file's permission bits before the umask.
    A reader sees the old or the new content. When it fails, the old file stays as it was.

    Raises:
        OSError: the file cannot be written (permissions, disk full).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """Make every file below a directory durable, and the directory itself."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        else:
            sync_directory(file)
    sync_directory(path)


def clear_directory(path: Path) -> None:
    """Make an empty directory at `path`, whatever was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
