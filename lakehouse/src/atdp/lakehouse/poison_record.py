"""Poison records: the record of a batch for which no file can be written.

A governed record can be decoded and still have no place in a table, when one of its values has no
form there: a time beyond the calendar, or a partition value longer than a file name may be. The
error of the write does not say which record it was. So parts of the batch are written again, by
bisection, until one record is left, and the writer can stop and name it. A full disk or a lost
connection is not caused by a record.
"""

import errno
from collections.abc import Callable

import polars as pl

from atdp.lakehouse.decode import NO_COLUMN_VALUE

_INVALID_FILE_NAME = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR}
)


def is_caused_by_a_value(error: Exception) -> bool:
    """Return whether an error of writing may come from a value of a record.

    pyarrow's `ArrowInvalid` is a `ValueError`.
    """
    if isinstance(error, OSError):
        return error.errno in _INVALID_FILE_NAME
    return isinstance(error, NO_COLUMN_VALUE)


def find_poison_record(frame: pl.DataFrame, write: Callable[[pl.DataFrame], object]) -> int | None:
    """Return the row of the first record that `write` fails for; None when all succeed now.

    The files that `write` makes are garbage.
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
        if is_caused_by_a_value(error):
            return True
        raise
    return False
