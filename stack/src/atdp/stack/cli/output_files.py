"""Files that a command writes where its options say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.stack.errors import OutputUnwritable


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turn an error of the system while a file is written into one for people.

    Raises:
        OutputUnwritable: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(
            f"cannot write {file}: {error.strerror or error}; name another file, or make room"
        ) from error
