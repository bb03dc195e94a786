"""Limits of how often a caller may do something: one token bucket for each caller.

A bucket holds `per_minute` tokens when it is full, and fills again at that rate. Memory is bounded:
beyond `max_callers` the bucket that was not used for longest is dropped, which is the fullest one
or nearly so. Buckets are of one process and start full.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from atdp.runtime import HttpProblem

_MINUTE_S = 60.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimit:
    """The limit of one kind of caller."""

    def __init__(
        self,
        name: str,
        per_minute: int,
        *,
        max_callers: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._per_minute = per_minute
        self._max_callers = max_callers
        self._clock = clock
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: Hashable) -> None:
        """Count one use by a caller.

        Raises:
            HttpProblem: 429 with `Retry-After` when the caller's bucket is empty.
        """
        now = self._clock()
        bucket = self._buckets.setdefault(caller, _Bucket(self._per_minute, now))
        self._buckets.move_to_end(caller)
        if len(self._buckets) > self._max_callers:
            self._buckets.popitem(last=False)
        rate = self._per_minute / _MINUTE_S
        bucket.tokens = min(self._per_minute, bucket.tokens + (now - bucket.filled_at) * rate)
        bucket.filled_at = now
        if bucket.tokens < 1:
            wait_s = math.ceil((1 - bucket.tokens) / rate)
            raise HttpProblem(
                429,
                "too_much_feedback",
                f"more than {self._per_minute} times a minute of {self._name}; "
                f"try again in {wait_s} s",
                retry_after_s=wait_s,
            )
        bucket.tokens -= 1
