"""Permissions of a home: its user alone enters it and reads its files.

Every process of the stack and every command makes its files private, and the folder of the home
lets nobody else in. A home of an earlier version, or one made by hand, is repaired by `atdp up`.
The permissions of its own folder change last, so that a repair that was interrupted begins again at
the next start; a home whose folder is closed is not searched.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_to_others(root: Path) -> bool:
    """Return whether other users may list, enter or change the folder of a home.

    Raises:
        OSError: the folder cannot be looked at.
    """
    return bool(root.stat().st_mode & _OTHERS)


def close_to_others(root: Path) -> str | None:
    """Take the permissions of group and others from an open home; returns what was done, or None.

    Raises:
        OSError: the permissions cannot be changed: a file belongs to another user.
    """
    if not open_to_others(root):
        return None
    closed = 0
    for path in _tree(root):
        with suppress(FileNotFoundError):  # a command that works in the home removes files
            mode = path.stat().st_mode
            if mode & _OTHERS:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
                closed += 1
    root.chmod(stat.S_IMODE(root.stat().st_mode) & ~_OTHERS)
    return f"closed the home {root} and {closed} files and folders in it to other users"


def _tree(root: Path) -> Iterator[Path]:
    """Yield every file and folder below `root`; symbolic links are not followed."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            if not path.is_symlink():
                yield path
