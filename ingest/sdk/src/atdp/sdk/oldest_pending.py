"""The age of the oldest record that is not delivered, from a few marks of time."""

import time

MAX_MARKS = 256
"""Marks that are kept, about 20 KB. Beyond them every second one is forgotten, and an age may come
out smaller by the time between two marks."""


class OldestPending:
    """Marks of the spool's end over time; one thread writes, any thread reads."""

    def __init__(self) -> None:
        """Have no mark."""
        self._marks: tuple[tuple[int, float], ...] = ()

    def mark(self, cursor: int, end: int) -> None:
        """Note that the spool holds records from `cursor` to `end` now."""
        marks = self._marks
        if marks and marks[0][0] <= cursor:
            marks = tuple(mark for mark in marks if mark[0] > cursor)
        if end > cursor and (not marks or marks[-1][0] < end):
            if len(marks) >= MAX_MARKS:
                marks = marks[::2]
            marks = (*marks, (end, time.monotonic()))
        self._marks = marks

    def age_s(self, cursor: int) -> float | None:
        """Return the age of the oldest record behind `cursor`, in seconds; None: none is known."""
        marks = self._marks  # before the clock: a mark may be made meanwhile
        now = time.monotonic()
        return next((now - at for end, at in marks if end > cursor), None)
