"""Files that are either the old or the new version after a crash, never something between."""

import os
import shutil
from pathlib import Path


def write_durably(path: Path, text: str) -> None:
    """Replace `path` by `text`; on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
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
    """An empty directory, whatever was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
