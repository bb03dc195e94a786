"""Files that a command writes to the paths in its options."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.stack.errors import OutputUnwritable


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turn an error of the operating system while `file` is written into an `OutputUnwritable`.

    Raises:
        OutputUnwritable: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(
            f"cannot write {file}: {error.strerror or error}; name another file, or make room"
        ) from error
