"""The recorder: from an event to a record in the spool, in the caller's thread.

An event is encoded once, signed and appended to the spool; a background thread (`atdp.sdk.shipper`)
does the rest. After construction nothing raises into the host, prints, or blocks it (unless
`on_full="block"` asks for that): a loss is counted, shown by `flush()` and logged once.

Events are numbered and appended under one lock, so the order of `seq` is the order in the spool and
in the log. A signal handler or a finaliser that emits while its own thread is inside has its event
taken right after. A forked child gets a spool, a thread, a producer id and numbers of its own; the
parent's are untouched.
"""

import atexit
import contextlib
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, Unpack

from atdp.schemas import (
    Agent,
    Event,
    EventId,
    Governance,
    SchemaError,
    SigningKey,
    Source,
    TenantId,
    TrajectoryId,
    TrajectoryStarted,
    Versions,
    encode,
    new_event_id,
    signed_headers,
)
from atdp.sdk.causes import cause_of
from atdp.sdk.delivery_report import FlushReport, Ledger
from atdp.sdk.envelope import RewardFields, make_reward
from atdp.sdk.errors import ConfigurationError, SpoolError
from atdp.sdk.forks import renew_after_fork
from atdp.sdk.record_framing import Record
from atdp.sdk.senders.port import Sender
from atdp.sdk.settings import Durability, OnFull, SpoolSettings
from atdp.sdk.shipper import Shipper
from atdp.sdk.spool import DEFAULT_LIMIT_BYTES, FileSpool, MemorySpool, Spool
from atdp.sdk.spool_locks import SpoolFolders
from atdp.sdk.trajectory import Identity, Trajectory, current_trajectory

Make: TypeAlias = Callable[[], Event]
"""Builds the event when its turn has come: numbers are given in the order of the spool."""
Substitute: TypeAlias = Callable[[Exception], Event]
"""The gap event to record in place of one that cannot be built or encoded."""


class Recorder:
    """Records events of one tenant and delivers them through one sender.

    Safe under threads, asyncio and fork.
    """

    # What a forked child starts afresh.
    producer_id: str
    _ledger: Ledger
    _inside: int | None  # the thread that is taking an event
    _deferred: deque[tuple[EventId, Make, Substitute | None, bool]]
    _spool: Spool | None
    _shipper: Shipper | None
    _closed: bool

    def __init__(
        self,
        *,
        tenant: str,
        sender: Sender,
        api_key: str | None = None,
        agent: Agent | str = "agent",
        spool_dir: Path | str | None = None,
        durability: Durability = "process",
        spool_limit_bytes: int = DEFAULT_LIMIT_BYTES,
        on_full: OnFull = "drop",
        block_s: float = 30.0,
        source: Source | None = None,
        versions: Versions | None = None,
        governance: Governance | None = None,
        flush_at_exit_s: float = 2.0,
    ) -> None:
        """Open a spool and start delivering, including what dead processes left in the same `spool_dir`.

        Args:
            tenant: whose data this is; must be the API key's tenant.
            sender: where events go; belongs to this recorder from now on.
            api_key: `atdp_<id>_<secret>`; default `$ATDP_API_KEY`. Signs every record, never leaves
                the process with `KafkaSender`.
            agent: who acts, unless a trajectory says otherwise.
            spool_dir: root folder of spools; default `$ATDP_HOME/spool`.
            durability: `process` survives kill -9, `disk` also power loss (about 0.2 ms per event),
                `memory` nothing.
            spool_limit_bytes: undelivered bytes that may be held.
            on_full: `drop` (counted) or `block` the caller, up to `block_s` seconds per event.
            block_s: see `on_full`.
            source: what events are made from; default format `sdk`.
            versions: versions in force, on every event that has none of its own.
            governance: consent, classification and the like, on every event that has none of its
                own.
            flush_at_exit_s: how long a normal exit waits for delivery; what remains is sent by the
                next process.

        Raises:
            ConfigurationError: an argument cannot work.
            SpoolError: the spool folder cannot be written.
        """
        api_key = api_key or os.environ.get("ATDP_API_KEY")
        if not tenant:
            raise ConfigurationError(
                "tenant is empty; it is the name that the API key was made for"
            )
        if not api_key:
            raise ConfigurationError(
                "no API key: pass api_key= or set ATDP_API_KEY (make one with `atdp keys create`)"
            )
        try:
            self._signing_key = SigningKey.parse(api_key)
        except SchemaError as error:
            raise ConfigurationError(f"api_key: {error}") from error
        self.tenant = TenantId(tenant)
        self.agent = Agent(id=agent) if isinstance(agent, str) else agent
        self.source = source or Source(format="sdk")
        self.versions = versions
        self.governance = governance
        self._settings = SpoolSettings(
            directory=None if spool_dir is None else Path(spool_dir),
            durability=durability,
            limit_bytes=spool_limit_bytes,
            on_full=on_full,
            block_s=block_s,
        )
        self._folders = (
            None if durability == "memory" else SpoolFolders(self._settings.root_of(tenant))
        )
        self._sender = sender
        self._flush_at_exit_s = flush_at_exit_s
        sender.attach(api_key)
        self._start_fresh()
        self._open()
        renew_after_fork(self)
        atexit.register(self._close_at_exit)

    @property
    def emitted(self) -> int:
        """Events that this recorder took into its spool, in this process."""
        return self._ledger.accepted

    def trajectory(
        self,
        *,
        trajectory_id: str | None = None,
        attempt: int = 0,
        task_id: str | None = None,
        session_id: str | None = None,
        task: str | None = None,
        environment: str | None = None,
        seed: int | None = None,
        agent: Agent | str | None = None,
        versions: Versions | None = None,
        governance: Governance | None = None,
        parent: Trajectory | None = None,
        parent_trajectory_id: str | None = None,
        spawned_by: str | None = None,
    ) -> Trajectory:
        """A new trajectory: use it in a `with` (or `async with`) block, or call `start` and `end` yourself.

        Args:
            trajectory_id: default: a new UUIDv7.
            attempt: attempt at the task, from 0.
            task_id: the same task is the same group in training.
            session_id: conversation or user session; default: the parent's.
            task: the task as given, text.
            environment: environment or domain.
            seed: seed of the environment.
            agent: who acts; default: the parent's, else the recorder's.
            versions: versions in force; default: the parent's, else the recorder's.
            governance: consent and the like; default: the parent's, else the recorder's.
            parent: the trajectory that spawns this one; default: the ambient one of this recorder,
                if any.
            parent_trajectory_id: the same by id, for a parent in another process.
            spawned_by: event id of the action that spawned it; default: the parent's newest action.
        """
        ambient_parent = (
            current_trajectory() if parent is None and parent_trajectory_id is None else None
        )
        if ambient_parent is not None and ambient_parent.belongs_to(self):
            parent = ambient_parent
        by_name = Agent(id=agent) if isinstance(agent, str) else agent
        inherited = parent.identity if parent is not None else None
        identity = Identity(
            trajectory_id=TrajectoryId(trajectory_id or new_event_id()),
            attempt=attempt,
            task_id=task_id,
            session_id=session_id or (inherited.session_id if inherited else None),
            parent_trajectory_id=inherited.trajectory_id if inherited else parent_trajectory_id,
            spawned_by=spawned_by or (parent.last_action if parent is not None else None),
            agent=by_name or (inherited.agent if inherited else self.agent),
            versions=versions or (inherited.versions if inherited else self.versions),
            governance=governance or (inherited.governance if inherited else self.governance),
        )
        return Trajectory(
            self, identity, TrajectoryStarted(task=task, environment=environment, seed=seed)
        )

    def emit_event(self, event: Event, *, redelivery: bool = False) -> EventId:
        """Record a whole event, as importers make them.

        Args:
            event: with its own id and numbers.
            redelivery: the event may have been emitted before under the same id, so consumers have
                to look.
        """
        return self.take(event.event_id, lambda: event, redelivery=redelivery)

    def emit_reward(
        self,
        trajectory_id: str,
        value: float | None = None,
        *,
        attempt: int = 0,
        task_id: str | None = None,
        session_id: str | None = None,
        **fields: Unpack[RewardFields],
    ) -> EventId:
        """Reward a trajectory (or one of its events or steps) by id: at any time, from any process, also long after its end."""
        event_id = new_event_id()

        def make() -> Event:
            return Event(
                event_id=event_id,
                tenant_id=self.tenant,
                trajectory_id=TrajectoryId(trajectory_id),
                attempt=attempt,
                producer_id=f"{self.producer_id}-{event_id}",  # numbers nothing but this event, so it needs no memory
                seq=0,
                step=fields.get("target_step") or 0,
                occurred_at=datetime.now(UTC),
                task_id=task_id,
                session_id=session_id,
                agent=self.agent,
                source=self.source,
                status="ok",
                governance=self.governance,
                body=make_reward(value, fields),
            )

        return self.take(event_id, make)

    def take(
        self,
        event_id: EventId,
        make: Make,
        *,
        substitute: Substitute | None = None,
        redelivery: bool = False,
    ) -> EventId:
        """Build, encode and spool one event; never raises.

        `make` runs when the event's turn has come, in this thread.
        """
        if self._inside == threading.get_ident():
            self._deferred.append((event_id, make, substitute, redelivery))
            return event_id
        with self._lock:
            self._inside = threading.get_ident()
            try:
                self._take(event_id, make, substitute, redelivery)
                while self._deferred:
                    self._take(*self._deferred.popleft())
            finally:
                self._inside = None
        return event_id

    def flush(self, timeout_s: float = 10.0) -> FlushReport:
        """Wait up to `timeout_s` until everything emitted so far has a final fate; then say the fate of each event."""
        shipper = self._shipper
        if shipper is not None:
            shipper.wait_drained(timeout_s)
        return self._ledger.report(0 if shipper is None else shipper.recovering_bytes)

    def close(self, timeout_s: float = 10.0) -> FlushReport:
        """Flush, then stop; what is not delivered stays in the spool for the next process.

        Later events are dropped, counted.
        """
        report = self.flush(timeout_s)
        with self._lock:
            shipper, self._shipper, self._spool = self._shipper, None, None
            self._closed = True
        if shipper is not None:
            shipper.stop(timeout_s=5.0)
        atexit.unregister(self._close_at_exit)
        return report

    def renew_in_child(self) -> None:
        """After a fork, in the child: forget the parent's spool, thread, numbers and counts."""
        if self._shipper is not None:
            self._shipper.abandon()
        self._sender.reset()
        closed = self._closed
        self._start_fresh()
        self._closed = closed

    def _start_fresh(self) -> None:
        self.producer_id = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._inside = None
        self._deferred = deque()
        self._ledger = Ledger()
        self._spool = None
        self._shipper = None
        self._closed = False

    def _open(self) -> tuple[Spool, Shipper]:
        spool: Spool
        if self._folders is None:
            spool = MemorySpool(self._settings.limit_bytes)
        else:
            spool = self._file_spool()
        shipper = Shipper(spool, self._sender, self._ledger, self._adopt)
        shipper.start()
        self._spool, self._shipper = spool, shipper
        return spool, shipper

    def _file_spool(self) -> FileSpool:
        assert self._folders is not None
        try:
            return FileSpool(
                self._folders.create(),
                self._folders,
                limit_bytes=self._settings.limit_bytes,
                sync=self._settings.durability == "disk",
            )
        except OSError as error:
            raise SpoolError(f"no spool could be made in {self._folders.root}: {error}") from error

    def _adopt(self) -> list[Spool]:
        """Spools that dead processes left behind."""
        if self._folders is None:
            return []
        spools: list[Spool] = []
        for folder in self._folders.adopt():
            try:
                spools.append(FileSpool(folder, self._folders))
            except OSError as error:
                folder.release()
                self._ledger.warn_once(
                    "a dead process's spool could not be read", f"{folder.path}: {error}"
                )
        return spools

    def _take(
        self, event_id: EventId, make: Make, substitute: Substitute | None, redelivery: bool
    ) -> None:
        try:
            record = self._record(make(), redelivery)
        except Exception as error:  # noqa: BLE001 - whatever the host passed in, its own work must go on
            self._ledger.fail(event_id, f"not recordable: {cause_of(error)}")
            if substitute is not None:
                self._take_gap(substitute, error)
        else:
            self._append(event_id, record)

    def _take_gap(self, substitute: Substitute, error: Exception) -> None:
        with contextlib.suppress(
            Exception
        ):  # what spoiled the event spoils the gap too; it is counted already
            gap = substitute(error)
            self._append(gap.event_id, self._record(gap, False))

    def _record(self, event: Event, redelivery: bool) -> Record:
        value = encode(event)
        return Record(
            record_id=uuid.UUID(event.event_id).bytes,
            key=event.key,
            value=value,
            headers=tuple(signed_headers(self._signing_key, value)),
            redelivery=redelivery,
        )

    def _append(self, event_id: EventId, record: Record) -> None:
        if self._closed:
            self._ledger.drop(event_id, "the recorder is closed")
            return
        self._ledger.accept(
            event_id
        )  # before the append: its receipt may come before `append` returns
        try:
            spool, shipper = self._spool, self._shipper
            if spool is None or shipper is None:
                spool, shipper = self._open()
            spool.append(record, wait_s=self._settings.wait_s)
        except SpoolError as error:
            self._ledger.take_back(event_id, str(error))
        except Exception as error:  # noqa: BLE001 - no memory, no thread, no file descriptor: the host goes on
            self._ledger.take_back(event_id, cause_of(error))
        else:
            if shipper.asleep:
                shipper.wake()

    def _close_at_exit(self) -> None:
        self.close(self._flush_at_exit_s)
