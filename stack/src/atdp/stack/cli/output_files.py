"""Files that a command writes to the paths in its options."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.stack.errors import OutputUnwritable


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Write `file` with the permissions of the user's umask, within the block.

    An error of the operating system becomes an `OutputUnwritable`.

    Raises:
        OutputUnwritable: the file cannot be written.
    """
    from atdp.runtime import files_of_user

    try:
        with files_of_user():
            yield
    except OSError as error:
        raise OutputUnwritable(
            f"cannot write {file}: {error.strerror or error}; name another file, or make room"
        ) from error
