"""Quotas by API key: requests and bytes in a second, and requests at work at a time.

A session key counts for the key that its session was opened with. A request over a quota is
answered 429 with `Retry-After` before anything of it is worked on, so it can be sent again. A key
can use `BURST_S` seconds of its rates at once. The bytes of a body count when they arrive; a body
that is larger than what is left is taken, and the next request waits until that is made up for. The
counts are of one process and begin anew with it.

Every key has the default quotas of the settings. `quotas.yaml` in the home gives single keys others
of their own, and is read when the gateway starts.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from atdp.gateway.errors import QuotasError
from atdp.gateway.rate_limits import TokenBucket
from atdp.runtime import DocumentError, HttpProblem, YamlDocument

BURST_S: Final = 10.0
MAX_NAMED_KEYS: Final = 100
"""Keys that metrics name. Later ones count together as `other`, so that keys that come and go do
not make metrics without end."""
_MAX_KEYS: Final = 10_000
"""Keys whose use is kept; beyond it the one that was not used for longest starts anew."""
_AT_WORK_RETRY_S: Final = 1

QuotaName = Literal["requests", "bytes", "concurrent"]
CountRefusal = Callable[[str, QuotaName], None]
"""Counts a refused request by the id of its key (or `other`) and the quota."""


class KeyQuota(BaseModel):
    """The quotas of a key. The defaults are above what one gateway process can serve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_s: float = Field(default=2_000.0, gt=0, allow_inf_nan=False)
    bytes_per_s: float = Field(default=256 * 1024 * 1024, gt=0, allow_inf_nan=False)
    """Bytes of request bodies."""
    concurrent: int = Field(default=900, gt=0)
    """Requests at work at a time; a server has 1,000 connections for all keys."""


class _QuotasDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: dict[str, KeyQuota]


def read_quotas(path: Path, default: KeyQuota) -> Mapping[str, KeyQuota]:
    """Return the quotas of single keys in a file; `default` holds for what it does not state.

    Raises:
        QuotasError: the file is wrong; a missing one names no key.
    """
    try:
        text = path.read_text("utf-8")
        document = YamlDocument.parse(text, where=str(path)).as_model(_QuotasDocument)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        raise QuotasError(f"the quotas of keys cannot be read: {error}") from error
    return {
        key_id: default.model_copy(update=stated.model_dump(exclude_unset=True))
        for key_id, stated in document.keys.items()
    }


class KeyUse:
    """The use that one key makes of its quotas."""

    __slots__ = ("_at_work", "_bytes", "_quota", "_requests")

    def __init__(self, quota: KeyQuota, now: float) -> None:
        def bucket(per_s: float) -> TokenBucket:
            return TokenBucket(per_s=per_s, most=max(1.0, per_s * BURST_S), now=now)

        self._quota = quota
        self._requests = bucket(quota.requests_per_s)
        self._bytes = bucket(quota.bytes_per_s)
        self._at_work = 0

    def exceeded(self, now: float) -> tuple[QuotaName, int] | None:
        """Return the quota that a further request would exceed, and the seconds to wait."""
        if self._at_work >= self._quota.concurrent:
            return "concurrent", _AT_WORK_RETRY_S
        if wait_s := self._requests.wait_s(now):
            return "requests", math.ceil(wait_s)
        if wait_s := self._bytes.wait_s(now):
            return "bytes", math.ceil(wait_s)
        return None

    def begin(self) -> None:
        """Count a request that begins."""
        self._requests.take()
        self._at_work += 1

    def end(self) -> None:
        """Count a request that has ended."""
        self._at_work -= 1

    def add_bytes(self, size: int) -> None:
        """Count bytes of a body."""
        self._bytes.take(size)

    def describe(self, quota: QuotaName) -> str:
        """Return the quota in words."""
        words: dict[QuotaName, str] = {
            "requests": f"{self._quota.requests_per_s:g} requests per second",
            "bytes": f"{self._quota.bytes_per_s:g} bytes per second",
            "concurrent": f"{self._quota.concurrent} requests at a time",
        }
        return words[quota]


class KeyQuotas:
    """The quotas of all keys in one process. For one event loop."""

    def __init__(
        self,
        default: KeyQuota,
        of_keys: Mapping[str, KeyQuota],
        count_refusal: CountRefusal,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._default = default
        self._of_keys = of_keys
        self._count_refusal = count_refusal
        self._clock = clock
        self._uses: OrderedDict[str, KeyUse] = OrderedDict()
        self._named: set[str] = set()

    @contextmanager
    def admitted(self, key_id: str) -> Iterator[KeyUse]:
        """Count a request of a key while the block runs.

        Raises:
            HttpProblem: 429 with `Retry-After`; a quota of the key is used up.
        """
        now = self._clock()
        use = self._use(key_id, now)
        if (exceeded := use.exceeded(now)) is not None:
            quota, wait_s = exceeded
            self._count_refusal(self._name(key_id), quota)
            raise HttpProblem(
                429,
                "quota_exceeded",
                f"key {key_id} may have {use.describe(quota)}; try again in {wait_s} s",
                retry_after_s=wait_s,
            )
        use.begin()
        try:
            yield use
        finally:
            use.end()

    def _use(self, key_id: str, now: float) -> KeyUse:
        use = self._uses.get(key_id)
        if use is None:
            use = self._uses[key_id] = KeyUse(self._of_keys.get(key_id, self._default), now)
            if len(self._uses) > _MAX_KEYS:
                self._uses.popitem(last=False)
        self._uses.move_to_end(key_id)
        return use

    def _name(self, key_id: str) -> str:
        if len(self._named) < MAX_NAMED_KEYS:
            self._named.add(key_id)
        return key_id if key_id in self._named else "other"
