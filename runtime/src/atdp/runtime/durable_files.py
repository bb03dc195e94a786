"""Files and directories whose content survives a crash of the process or of the machine.

A file that is written here holds the complete old or the complete new content after a crash. The
content goes to a temporary file in the same directory (`.NAME.PID.RANDOM.tmp`), is flushed to the
disk, and is then renamed. The names are unique, so several processes, threads and forked children
may write the same file; the last rename wins. A process that is killed while it writes leaves its
temporary file behind. Its name starts with a dot and ends in `.tmp`, so patterns such as `*.json`
do not match it.
"""

import os
import shutil
from pathlib import Path


def write_durably(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Replace the content of `path`; it is on the disk when this returns.

    Text is written as UTF-8. Missing parent directories are created. `mode` holds the permission
    bits of the new file before the umask; the permissions of a file that is replaced are not kept.
    A symbolic link is replaced by a file.

    When writing fails, the old file stays as it was. Only if flushing the directory fails is the
    new content already visible.

    Raises:
        OSError: the file cannot be written (permissions, disk full).
    """
    data = content.encode() if isinstance(content, str) else content
    _make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to the disk: files created, renamed and removed in it.

    Raises:
        OSError: the directory cannot be opened or flushed.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """Flush every file and directory below a directory, and the directory itself, to the disk.

    Symbolic links are not followed.

    Raises:
        OSError: a file or directory cannot be opened or flushed.
    """
    for folder, _, names in os.walk(path, onerror=_raise):
        for name in names:
            file = Path(folder, name)
            if file.is_symlink() or not file.is_file():
                continue
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        sync_directory(Path(folder))


def clear_directory(path: Path) -> None:
    """Make `path` an empty directory; a directory that is there is removed with its content.

    Raises:
        OSError: the old directory cannot be removed, or the new one cannot be created.
    """
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)


def _make_directory(path: Path) -> None:
    """Create a directory with its missing parents, and flush the entries that name them."""
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_directory(folder.parent)


def _raise(error: OSError) -> None:
    raise error
