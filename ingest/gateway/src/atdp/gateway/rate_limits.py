"""Token buckets, and limits of how often a caller may do something.

A bucket holds so many tokens when it is full, and fills again at its rate. Buckets are of one
process and start full. The memory of a `RateLimit` is bounded: beyond `max_callers` the bucket that
was not used for longest is dropped, which is the fullest one or nearly so.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from atdp.runtime import HttpProblem

_MINUTE_S = 60.0


class TokenBucket:
    """Holds up to `most` tokens, and gets `per_s` new ones in a second."""

    __slots__ = ("_filled_at", "_most", "_per_s", "_tokens")

    def __init__(self, *, per_s: float, most: float, now: float) -> None:
        """Fill the bucket; `now` and all later times are seconds of one clock."""
        self._per_s = per_s
        self._most = most
        self._tokens = most
        self._filled_at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until the bucket holds a token; 0 when it holds one."""
        gained = (now - self._filled_at) * self._per_s
        self._tokens = min(self._most, self._tokens + gained)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) / self._per_s)

    def take(self, tokens: float = 1.0) -> None:
        """Take tokens; when there are too few, the bucket owes them, and must fill up first."""
        self._tokens -= tokens


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
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: Hashable) -> None:
        """Count one use by a caller.

        Raises:
            HttpProblem: 429 with `Retry-After` when the caller's bucket is empty.
        """
        now = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None:
            per_s = self._per_minute / _MINUTE_S
            bucket = TokenBucket(per_s=per_s, most=self._per_minute, now=now)
            self._buckets[caller] = bucket
        self._buckets.move_to_end(caller)
        if len(self._buckets) > self._max_callers:
            self._buckets.popitem(last=False)
        if wait_s := math.ceil(bucket.wait_s(now)):
            raise HttpProblem(
                429,
                "too_much_feedback",
                f"more than {self._per_minute} times a minute of {self._name}; "
                f"try again in {wait_s} s",
                retry_after_s=wait_s,
            )
        bucket.take()
