"""Samples: whole trajectories that are drawn from a stream of records by a seed.

A trajectory is drawn by the digest of its key under the seed: those with the smallest digests are
the sample. So the sample depends on the seed and on the trajectories alone, not on the order of the
records or the number of partitions, and one pass suffices: a trajectory that leaves the sample
never comes back.
"""

import hashlib
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import PreviewError
from atdp.schemas import SchemaError, decode_record

SampleSource: TypeAlias = Literal["raw", "quarantine", "lake"]
SAMPLE_SOURCES: Final[Sequence[SampleSource]] = get_args(SampleSource)

MOST_BYTES: Final = 1_000_000_000
"""Bytes of records that a sample may hold in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleWindow:
    """The records that are sampled: from `since` (inclusive) to `until` (exclusive).

    `trajectories`: the size of the sample; None takes all of the window. `kinds`: events that are
    counted; None counts all. Events of other kinds are governed as well, because later events of
    their trajectory depend on them.
    """

    since: datetime
    until: datetime
    trajectories: int | None = 200
    seed: int = 0
    kinds: frozenset[str] | None = None

    def holds(self, at: datetime) -> bool:
        """Return whether a time is within the window."""
        return self.since <= at < self.until


@dataclass(frozen=True, slots=True)
class DrawnRecord:
    """A record of a sample, and the event that it holds; None when it is unreadable."""

    raw: RawRecord
    event: Mapping[str, Any] | None

    @classmethod
    def of(cls, raw: RawRecord) -> "DrawnRecord":
        """Return the sampled form of a raw record."""
        try:
            name, event = decode_record(raw.value)
        except SchemaError:
            return cls(raw, None)
        return cls(raw, event if name == "event" else None)

    @property
    def kind(self) -> str:
        """The kind of its event."""
        return str(self.event["kind"]) if self.event is not None else "unreadable"


@dataclass(frozen=True, slots=True)
class DrawnTrajectory:
    """The records of one trajectory within the window, in the order of the log."""

    tenant: str
    records: Sequence[DrawnRecord]

    @property
    def begun_before(self) -> bool:
        """True when its first event is not among the records."""
        first = min((each.event["seq"] for each in self.records if each.event), default=0)
        return bool(first > 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A sample of one source. `in_window` counts the trajectories that it was drawn from."""

    source: SampleSource
    in_window: int
    trajectories: Sequence[DrawnTrajectory]

    @property
    def is_part(self) -> bool:
        """True when trajectories of the window were left out."""
        return len(self.trajectories) < self.in_window


@dataclass(slots=True)
class TrajectorySampler:
    """Draws trajectories from records, in one pass."""

    window: SampleWindow
    wants: Callable[[str], bool]
    """Returns whether a tenant is sampled."""
    _ranks: dict[bytes, bytes] = field(default_factory=dict)
    _records: dict[bytes, list[RawRecord]] = field(default_factory=dict)
    _largest: list[tuple[int, bytes]] = field(default_factory=list)
    """A heap of the drawn trajectories by falling rank."""
    _bytes: int = 0

    def offer(self, key: bytes) -> None:
        """Let the trajectory with this key (`atdp.schemas.record_key`) take part in the draw."""
        if key in self._ranks or not self.wants(_tenant_of(key)):
            return
        seed = b"%d" % self.window.seed
        self._ranks[key] = hashlib.blake2b(key, digest_size=8, key=seed).digest()
        self._draw(key)

    @property
    def drawn(self) -> Sequence[bytes]:
        """The keys of the trajectories that are drawn so far."""
        return list(self._records)

    def add(self, key: bytes, raw: RawRecord) -> None:
        """Take a record of the trajectory with this key.

        Raises:
            PreviewError: the sample needs more memory than it may have.
        """
        self.offer(key)
        records = self._records.get(key)
        if records is None:
            return
        records.append(raw)
        self._bytes += len(raw.value)
        if self._bytes > MOST_BYTES:
            raise PreviewError(
                f"the sample has more than {MOST_BYTES // 1_000_000} MB; "
                "choose fewer trajectories or a shorter window"
            )

    def sample(self, source: SampleSource) -> Sample:
        """Return the sample. Its trajectories are in the order in which they are drawn."""
        return Sample(
            source=source,
            in_window=len(self._ranks),
            trajectories=[
                DrawnTrajectory(_tenant_of(key), [DrawnRecord.of(raw) for raw in records])
                for key, records in sorted(
                    self._records.items(), key=lambda item: (self._ranks[item[0]], item[0])
                )
            ],
        )

    def _draw(self, key: bytes) -> None:
        self._records[key] = []
        most = self.window.trajectories
        if most is None:
            return
        heapq.heappush(self._largest, (-int.from_bytes(self._ranks[key]), key))
        if len(self._largest) > most:
            _, gone = heapq.heappop(self._largest)
            self._bytes -= sum(len(raw.value) for raw in self._records.pop(gone))


def _tenant_of(key: bytes) -> str:
    return key.partition(b"/")[0].decode("utf-8", "replace")
