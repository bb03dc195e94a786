"""The ownership of spool folders.

Below one root every process (and every recorder in it) writes to a folder of its own and holds an
exclusive `flock` on the file `lock` in it for as long as it lives; the kernel releases the lock
however the process dies. A folder whose lock can be taken therefore has no living owner, and the
process that takes the lock adopts the folder's records. Creating, adopting and removing are
serialised by a lock on the root, so a folder is never seen between its creation and its first lock.

The locks are the SDK's own, because the SDK depends on `atdp.schemas` alone.

`flock` belongs to the open file description, which a forked child shares: a child closes its copies
and must not unlock them.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atdp.sdk.errors import SpoolError

_ROOT_LOCK = ".lock"
_FOLDER_LOCK = "lock"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class OwnedFolder:
    """A spool folder of this process, with the lock that proves it."""

    path: Path
    lock_fd: int

    def release(self) -> None:
        """Let others adopt the folder."""
        with contextlib.suppress(OSError):
            os.close(self.lock_fd)

    def abandon(self) -> None:
        """Forget the folder, in a forked child; it stays the parent's."""
        self.release()  # closing the child's copy leaves the parent's lock in place


class SpoolFolders:
    """The folders below one spool root."""

    def __init__(self, root: Path) -> None:
        """Make the root, private to the user, since events hold raw text.

        Raises:
            SpoolError: the root cannot be made or written.
        """
        self.root = root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._serialised():
                pass
        except OSError as error:
            raise SpoolError(
                f"the spool folder {root} cannot be written ({error.strerror}); "
                "choose another spool_dir, or durability='memory' to keep events in memory only"
            ) from error

    def create(self) -> OwnedFolder:
        """Return a new, empty folder of this process."""
        with self._serialised():
            path = self.root / f"{os.getpid()}-{secrets.token_hex(4)}"
            path.mkdir(mode=0o700)
            lock_fd = os.open(path / _FOLDER_LOCK, _OPEN, 0o600)
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
            return OwnedFolder(path, lock_fd)

    def adopt(self) -> list[OwnedFolder]:
        """Return every folder whose owner is gone, now owned by this process; oldest first."""
        with self._serialised():
            folders = sorted(
                (entry for entry in self.root.iterdir() if (entry / _FOLDER_LOCK).is_file()),
                key=lambda entry: entry.stat().st_mtime_ns,
            )
            adopted = []
            for path in folders:
                lock_fd = os.open(path / _FOLDER_LOCK, _OPEN, 0o600)
                try:
                    fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock_fd)
                else:
                    adopted.append(OwnedFolder(path, lock_fd))
            return adopted

    def remove(self, folder: OwnedFolder) -> None:
        """Delete an owned folder with its files."""
        with self._serialised():
            for entry in folder.path.iterdir():
                entry.unlink(missing_ok=True)
            folder.path.rmdir()
        folder.release()

    def keep_aside(self, folder: OwnedFolder, position: int, damaged: bytes) -> None:
        """Keep the damaged bytes of an owned folder's spool in a file beside the folder."""
        path = self.root / f"{folder.path.name}-{position:016x}.damaged"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(damaged)

    @contextlib.contextmanager
    def _serialised(self) -> Iterator[None]:
        fd = os.open(self.root / _ROOT_LOCK, _OPEN, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                # Unlock rather than only close: a child forked meanwhile holds a copy of the
                # descriptor.
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)
