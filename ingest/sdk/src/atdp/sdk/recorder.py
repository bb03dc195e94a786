"""The recorder: from an event to a record in the spool, in the caller's thread.

An event is encoded once and appended to the spool; a background thread (`atdp.sdk.shipper`) signs
and sends it. After construction nothing raises into the host, prints, or blocks it (unless
`on_full="block"` asks for that): a loss is counted, shown by `flush()` and logged once.

Events are numbered and appended one at a time (`atdp.sdk.event_intake`), so the order of `seq` is
the order in the spool and in the log. A forked child gets a spool, a thread, a producer id and
numbers of its own; the parent's stay untouched.
"""

import atexit
import time
import uuid
from datetime import UTC, datetime
from typing import Unpack

from atdp.schemas import (
    Event,
    EventId,
    PromptMemory,
    SchemaError,
    Source,
    TrajectoryId,
    TrajectoryIdentity,
    TrajectoryStarted,
    decode,
    new_event_id,
)
from atdp.sdk.causes import cause_of
from atdp.sdk.delivery_report import DeliveryLedger, FlushReport
from atdp.sdk.envelope import RewardFields, make_reward
from atdp.sdk.errors import SpoolError
from atdp.sdk.event_intake import EventIntake, OfferedEvent, SingleEvent
from atdp.sdk.event_writer import EventWriter
from atdp.sdk.forks import renew_after_fork
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.recorder_options import (
    RecorderOptions,
    TrajectoryOptions,
    api_key_of,
    as_agent,
    identity_of,
    refuse_unknown,
    refuse_unusable,
    spool_settings_of,
    tenant_of,
)
from atdp.sdk.senders.port import Sender
from atdp.sdk.shipper import Shipper
from atdp.sdk.spool import Spool
from atdp.sdk.spool_source import SpoolSource
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory
from atdp.sdk.writer_register import WriterRegister


class Recorder:
    """Records events of one tenant and delivers them through one sender.

    Safe under threads, asyncio and fork.
    """

    # A forked child starts these afresh.
    producer_id: str
    _ledger: DeliveryLedger
    _intake: EventIntake
    _writers: WriterRegister
    _spool: Spool | None
    _shipper: Shipper | None
    _closed: bool

    def __init__(self, *, tenant: str, sender: Sender, **options: Unpack[RecorderOptions]) -> None:
        """Open a spool and start delivering, including spools of dead processes in `spool_dir`.

        Args:
            tenant: the tenant that owns the events; must be the API key's tenant.
            sender: where events go; belongs to this recorder from now on.
            **options: see `RecorderOptions`.

        Raises:
            ConfigurationError: an argument cannot work.
            SpoolError: the spool folder cannot be written.
        """
        refuse_unknown(options, RecorderOptions)
        self.tenant = tenant_of(tenant)
        api_key = api_key_of(options.get("api_key"))
        self.agent = as_agent(options.get("agent", "agent"))
        self.source = options.get("source") or Source(format="sdk")
        self.versions = options.get("versions")
        self.governance = options.get("governance")
        refuse_unusable(self._defaults())
        self.prompts = PromptMemory(options.get("control_tokens") or {})
        self._settings = spool_settings_of(options)
        self._wait_s = self._settings.wait_s
        self._spools = SpoolSource(self._settings, tenant)
        self._sender = sender
        self._flush_at_exit_s = options.get("flush_at_exit_s", 2.0)
        sender.attach(api_key)
        self._start_fresh()
        self._open()
        renew_after_fork(self)
        atexit.register(self._close_at_exit)

    @property
    def emitted(self) -> int:
        """Number of events that this recorder took into its spool, in this process."""
        return self._ledger.accepted

    def trajectory(self, **options: Unpack[TrajectoryOptions]) -> Trajectory:
        """Return a new trajectory; the options are those of `TrajectoryOptions`.

        Use it in a `with` (or `async with`) block, or call its `start` and `end`.
        """
        refuse_unknown(options, TrajectoryOptions)
        parent = options.get("parent")
        if parent is None and options.get("parent_trajectory_id") is None:
            ambient = current_trajectory()
            if ambient is not None and ambient.belongs_to(self):
                parent = ambient
        started = TrajectoryStarted(
            task=options.get("task"),
            environment=options.get("environment"),
            seed=options.get("seed"),
        )
        return Trajectory(self, identity_of(options, self._defaults(), parent), started)

    def emit_event(self, event: Event, *, redelivery: bool = False) -> EventId:
        """Record a whole event, as importers make them.

        Args:
            event: an event with its own id and numbers.
            redelivery: the event may have been emitted before under the same id; the audit says so.
                With or without this mark, an event id lands in the lake once.
        """
        return self.take(SingleEvent(event.event_id, lambda: event, redelivery))

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
        """Reward a trajectory (or one of its events or steps) by id.

        This works at any time and from any process, also long after the trajectory's end.
        """
        event_id = new_event_id()

        def make() -> Event:
            return Event(
                event_id=event_id,
                tenant_id=self.tenant,
                trajectory_id=TrajectoryId(trajectory_id),
                attempt=attempt,
                # A producer of its own numbers this event alone, so nothing has to be remembered.
                producer_id=f"{self.producer_id}-{event_id}",
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

        return self.take(SingleEvent(event_id, make))

    def take(self, offered: OfferedEvent) -> EventId:
        """Build, encode and spool one event; never raises.

        The event is made when its turn has come, in this thread.
        """
        self._intake.take(offered)
        return offered.event_id

    def watch_refusals(self, producer_id: str, writer: EventWriter) -> None:
        """Tell `writer`, as long as it lives, of each event of its producer that is refused."""
        self._writers.add(producer_id, writer)

    def owe_gap(self, writer: EventWriter) -> None:
        """Ask for the gap of `writer` when there may be room, at the latest on flush and close."""
        if not self._closed:
            self._writers.owe(writer)

    def retire(self, writer: EventWriter) -> None:
        """Note that nobody records with `writer` any more; called by the garbage collector."""
        if self._spool is not None:
            self._writers.retire(writer, self._spool)

    def flush(self, timeout_s: float = 10.0) -> FlushReport:
        """Wait up to `timeout_s` until every event has a final fate; return the fates reached.

        Then write the gap events that name lost events, and wait for these too.
        """
        shipper = self._shipper
        if shipper is not None:
            deadline = time.monotonic() + timeout_s
            shipper.wait_drained(timeout_s)
            if self._intake.write_owed_gaps():
                shipper.wait_drained(deadline - time.monotonic())
        return self._ledger.report(0 if shipper is None else shipper.recovering_bytes)

    def close(self, timeout_s: float = 10.0) -> FlushReport:
        """Flush, then stop; what is not delivered stays in the spool for the next process.

        Later events are dropped, counted.
        """
        report = self.flush(timeout_s)
        with self._intake.lock:
            shipper, self._shipper, self._spool = self._shipper, None, None
            self._closed = True
        if shipper is not None:
            shipper.stop(timeout_s=5.0)
        atexit.unregister(self._close_at_exit)
        return report

    def renew_in_child(self) -> None:
        """Forget the parent's spool, thread, numbers and counts, in a forked child."""
        if self._shipper is not None:
            self._shipper.abandon()
        self._sender.reset()
        closed = self._closed
        self._start_fresh()
        self._closed = closed

    def _start_fresh(self) -> None:
        self.producer_id = uuid.uuid4().hex
        self._ledger = DeliveryLedger()
        self._writers = WriterRegister()
        self._intake = EventIntake(self._ledger, self._append, self._writers)
        self._spool = None
        self._shipper = None
        self._closed = False

    def _defaults(self) -> TrajectoryIdentity:
        """Return the envelope fields of a trajectory without parent; its id is not used."""
        return TrajectoryIdentity(
            tenant_id=self.tenant,
            trajectory_id=TrajectoryId(""),
            agent=self.agent,
            source=self.source,
            versions=self.versions,
            governance=self.governance,
        )

    def _open(self) -> tuple[Spool, Shipper]:
        spool = self._spools.open()
        shipper = Shipper(
            spool,
            self._sender,
            self._ledger,
            adopt=self._adopt,
            refused=self._note_refused,
            spool_limit_bytes=self._settings.limit_bytes,
        )
        shipper.start()
        self._spool, self._shipper = spool, shipper
        return spool, shipper

    def _adopt(self) -> list[Spool]:
        ledger = self._ledger
        return self._spools.adopt(
            lambda text: ledger.warn_once("a dead process's spool could not be read", text)
        )

    def _note_refused(self, value: bytes) -> None:
        """Tell the writer of an encoded event that the receiver will never take it."""
        try:
            event = decode(value)
        except SchemaError:
            return
        self._writers.note_refused(event)

    def _append(self, event_id: EventId, record: SpoolRecord) -> str | None:
        """Put a record into the spool; return the reason why it could not be put there."""
        if self._closed:
            return "the recorder is closed"
        try:
            spool, shipper = self._spool, self._shipper
            if spool is None or shipper is None:
                spool, shipper = self._open()
            end = spool.append(record, wait_s=self._wait_s)
        except SpoolError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - no memory, thread or file descriptor
            return cause_of(error)
        self._ledger.accept(event_id, end)
        if end >= shipper.wake_at:
            shipper.wake()
        return None

    def _close_at_exit(self) -> None:
        self.close(self._flush_at_exit_s)
