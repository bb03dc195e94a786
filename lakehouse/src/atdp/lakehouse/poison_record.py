"""Unstorable records: which one of a batch it is that no file can be written for.

A governed record decodes and still has no place in a table when a value of it has no form there: a
time beyond the calendar, a partition value longer than a file name. Nothing that is written for the
batch says which record it was, so halves of it are written again until one record is left, and the
writer can stop with its name. A full disk or a lost connection is no record's fault.
"""

import errno
from collections.abc import Callable

import polars as pl

from atdp.lakehouse.decode import NO_COLUMN_VALUE

_BY_ITS_NAME = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR}
)


def blames_a_record(error: Exception) -> bool:
    """Whether an error of writing may come from a value (pyarrow's `ArrowInvalid` is a `ValueError`)."""
    if isinstance(error, OSError):
        return error.errno in _BY_ITS_NAME
    return isinstance(error, NO_COLUMN_VALUE)


def first_unstorable(frame: pl.DataFrame, write: Callable[[pl.DataFrame], object]) -> int | None:
    """Row of the first record that `write` fails for; None when it takes them all now.

    What it writes is garbage.
    """
    if not _fails(frame, write):
        return None
    first, after = 0, frame.height
    while after - first > 1:
        middle = (first + after) // 2
        if _fails(frame[first:middle], write):
            after = middle
        else:
            first = middle
    return first


def _fails(rows: pl.DataFrame, write: Callable[[pl.DataFrame], object]) -> bool:
    try:
        write(rows)
    except Exception as error:
        if blames_a_record(error):
            return True
        raise
    return False
