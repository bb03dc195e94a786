"""The line that shows on a terminal that a long call is at work, where no share of it is known."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from atdp.stack.cli.terminal import rewrite_line

_QUIET_S: Final = 2.0
"""Seconds after which a call shows that it is at work."""
_EVERY_S: Final = 1.0


@contextmanager
def elapsed_line(what: str, *, quiet_s: float = _QUIET_S) -> Iterator[None]:
    """Show on standard error how long the block has taken; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    started_s = time.monotonic()

    def show() -> None:
        wait_s, shown = quiet_s, False
        while not ended.wait(wait_s):
            rewrite_line(f"{what}: {time.monotonic() - started_s:.0f} s")
            wait_s, shown = _EVERY_S, True
        if shown:
            rewrite_line()

    thread = threading.Thread(target=show, name="elapsed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
