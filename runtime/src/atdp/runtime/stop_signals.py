"""Reactions to the signals that end a process."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def call_on_signals(
    react: Callable[[int], object], numbers: tuple[signal.Signals, ...] = _STOP_SIGNALS
) -> Callable[[], None]:
    """Call `react` with the signal's number, in a thread of its own, whenever a signal comes.

    A handler itself runs in the main thread, which may hold the lock of an event that it waits for
    again and again; setting that event in the handler would then block for ever.

    Call it from the main thread. Returns a function that restores the handlers of before.
    """

    def handle(number: int, _frame: object) -> None:
        threading.Thread(target=react, args=(number,), daemon=True).start()

    before = {number: signal.signal(number, handle) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGINT or SIGTERM sets while the block runs."""
    stop = threading.Event()
    restore = call_on_signals(lambda _number: stop.set())
    try:
        yield stop
    finally:
        restore()
