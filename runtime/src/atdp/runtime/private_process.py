"""A process of which other users of the machine see no files and no memory.

Its files are for its own user only, whatever umask it was started with, and so are those of the
processes that it starts. It writes no core dump: one would hold keys, and raw values of events.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PRIVATE_UMASK = 0o077
_PR_SET_DUMPABLE = 4

_outer_umask: ContextVar[int | None] = ContextVar("_outer_umask", default=None)


def make_process_private() -> None:
    """Keep files and memory of this process private until it ends; for services.

    On Linux, the memory of the process cannot be read by other processes of its user either, and a
    crash handler of the system gets no dump. That holds until the process starts another program.
    """
    os.umask(PRIVATE_UMASK)
    forbid_core_dumps()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def forbid_core_dumps() -> None:
    """Write no core dump when this process, or one that it starts, crashes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def private_files() -> Iterator[None]:
    """Make new files in this block private; for a command, which writes into a home."""
    before = os.umask(PRIVATE_UMASK)
    token = _outer_umask.set(before)
    try:
        yield
    finally:
        _outer_umask.reset(token)
        os.umask(before)


@contextmanager
def files_of_user() -> Iterator[None]:
    """Give new files in this block the permissions that the user's own umask gives.

    For what a command writes to a path that its user names. Outside of `private_files` this changes
    nothing. The umask is one for the process: call it where no other thread writes into the home.
    """
    umask = _outer_umask.get()
    if umask is None:
        yield
        return
    private = os.umask(umask)
    try:
        yield
    finally:
        os.umask(private)
