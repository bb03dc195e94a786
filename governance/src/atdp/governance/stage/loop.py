"""The loop: consume a batch, govern it, write the outcome and the offsets in one transaction.

Guarantees, on any mixture of crashes, freezes and rebalances: every raw record leads to exactly one
audit record and at most one governed or quarantined record, all visible together; order within a
partition is kept, because a batch is written in the order it was read, to the partition number it
was read from. How: offsets are committed only inside the transaction; a worker that starts fences
its predecessor and aborts what that left open; after a failed transaction the consumer goes back to
the committed offsets.

A transaction is bounded by records, seconds and bytes: when time or bytes are used up, what is
governed so far is committed and the consumer goes back to the first record that is not. Every
transaction governs one record at least, and the gate bounds the time of one.

A policy that cannot be used, or a key store that cannot be read, halts the loop: partitions are
paused, the group membership is kept, and nothing passes until it is mended. Partitions are assigned
within a poll and can be paused only after it, so that poll may bring records: they are read again
when the gate opens.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from atdp.governance.errors import GovernanceError, HomeUnavailable, PolicyError
from atdp.governance.gate import Decided, Gate, Output, RawRecord
from atdp.governance.stage.metrics import StageMetrics
from atdp.governance.stage.settings import StageSettings
from atdp.governance.stage.transaction import ANY_PARTITION, TransactionFailed, Writes
from atdp.schemas import TopicRole

_log = logging.getLogger("atdp.governance")

_HALTED_POLL_S = 0.5
_FAILURE_PAUSE_S = 0.5
_METADATA_TIMEOUT_S = 10.0
_EPOCH = datetime.fromtimestamp(0, UTC)


class Stage:
    """One worker's consumer, gate and writer. Single-threaded."""

    def __init__(
        self,
        settings: StageSettings,
        gate: Gate,
        writes: Writes,
        metrics: StageMetrics,
        *,
        now: Callable[[], datetime],
        on_state: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`on_state` hears why the stage cannot work now, or `None` when it can."""
        self._settings = settings
        self._gate = gate
        self._writes = writes
        self._metrics = metrics
        self._now = now
        self._on_state = on_state
        self._raw = settings.topic("events_raw")
        self._halted: str | None = None
        self._consumer = Consumer(dict(settings.consumer()))

    def start(self) -> None:
        """Check the topics, fence earlier workers, join the group.

        Raises:
            GovernanceError: topics are missing, or raw and governed differ in their number of
                partitions.
            Fenced, TransactionFailed: the producer could not start.
        """
        self._check_topics()
        self._writes.start()
        self._consumer.subscribe([self._raw])

    def step(self) -> int:
        """One transaction at most; the number of records it committed.

        Raises:
            Fenced, TransactionStuck: this process must end.
        """
        if not self._home_usable():
            self._read_again(self._usable(self._consumer.consume(1, _HALTED_POLL_S)))
            return 0
        messages = self._usable(
            self._consumer.consume(self._settings.batch_records, self._settings.batch_wait_s)
        )
        if not messages:
            return 0
        started = time.monotonic()
        try:
            decisions = self._transact(messages)
        except TransactionFailed as failure:
            self._metrics.transactions.labels("aborted").inc()
            _log.warning(
                "a transaction was given up and will be repeated", extra={"why": str(failure)}
            )
            self._abort_and_rewind()
            return 0
        except HomeUnavailable as missing:
            self._metrics.transactions.labels("aborted").inc()
            self._abort_and_rewind()
            self._halt(str(missing))
            return 0
        self._metrics.transactions.labels("committed").inc()
        self._metrics.seconds.observe(time.monotonic() - started)
        for message, decided in zip(messages, decisions, strict=False):
            self._metrics.committed(decided, len(message.value() or b""))
        self._read_again(messages[len(decisions) :])
        self._measure_lag()
        return len(decisions)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _transact(self, messages: Sequence[Message]) -> list[Decided]:
        """The decisions that are committed: those on the first of `messages`, on one at least."""
        self._writes.begin()
        until = time.monotonic() + self._settings.batch_s
        room_bytes = self._settings.batch_bytes
        decisions: list[Decided] = []
        for message in messages:
            decided = self._gate.decide(_raw_record(message), self._now())
            room_bytes -= self._write(decided, message.partition())
            decisions.append(decided)
            if time.monotonic() > until or room_bytes < 0:
                break
        last = {message.partition(): message.offset() for message in messages[: len(decisions)]}
        offsets = [
            TopicPartition(self._raw, partition, offset + 1) for partition, offset in last.items()
        ]
        self._writes.commit(offsets, self._consumer.consumer_group_metadata())
        return decisions

    def _write(self, decided: Decided, partition: int) -> int:
        """Hand over one decision's records; their bytes."""
        outputs: list[tuple[TopicRole, int, Output | None]] = [
            ("events_governed", partition, decided.governed),
            ("events_quarantine", ANY_PARTITION, decided.quarantined),
            ("audit", ANY_PARTITION, decided.audit),
        ]
        for role, to, output in outputs:
            if output is not None:
                self._writes.write(self._settings.topic(role), to, output)
        return sum(len(output.value) for _, _, output in outputs if output is not None)

    def _read_again(self, messages: Sequence[Message]) -> None:
        """Go back to the first of `messages`, per partition."""
        first: dict[int, int] = {}
        for message in messages:
            first.setdefault(message.partition(), message.offset())
        self._seek(
            [TopicPartition(self._raw, partition, offset) for partition, offset in first.items()]
        )

    def _home_usable(self) -> bool:
        try:
            self._gate.check()
            if self._gate.policies.refresh():
                self._gate.forget()
                _log.info("policies loaded")
        except (PolicyError, HomeUnavailable) as error:
            self._halt(str(error))
            return False
        if self._halted is not None:
            self._halted = None
            self._metrics.halted.set(0)
            self._consumer.resume(self._consumer.assignment())
            self._on_state(None)
        return True

    def _halt(self, why: str) -> None:
        # Partitions that were assigned since the last step must be paused too.
        self._consumer.pause(self._consumer.assignment())
        if self._halted == why:
            return
        self._halted = why
        self._metrics.halted.set(1)
        self._on_state(why)
        _log.error("the gate is closed until its home is mended", extra={"why": why})

    def _usable(self, messages: Sequence[Message]) -> list[Message]:
        usable = []
        for message in messages:
            error = message.error()
            if error is None:
                usable.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                _log.warning(
                    "the broker reported an error while consuming", extra={"why": error.str()}
                )
        return usable

    def _abort_and_rewind(self) -> None:
        """Back to the committed offsets.

        Raises:
            Fenced, TransactionStuck, TransactionFailed: the transaction cannot even be given up;
                the process must end.
        """
        self._writes.abort()
        try:
            positions = self._consumer.committed(self._consumer.assignment(), _METADATA_TIMEOUT_S)
        except KafkaException as error:
            self._join_again(str(error))
            return
        # An offset of which the broker says only that it failed must not be read as "nothing
        # committed yet".
        failed = [position.error.str() for position in positions if position.error is not None]
        if failed:
            self._join_again(failed[0])
            return
        self._seek(
            [
                TopicPartition(
                    position.topic,
                    position.partition,
                    position.offset if position.offset >= 0 else OFFSET_BEGINNING,
                )
                for position in positions
            ]
        )

    def _seek(self, positions: Sequence[TopicPartition]) -> None:
        try:
            for position in positions:
                self._consumer.seek(position)
        except KafkaException as error:
            self._join_again(str(error))

    def _join_again(self, why: str) -> None:
        """Positions are unknown: leaving and joining the group again starts from the committed ones."""
        _log.warning("could not rewind, joining the group again", extra={"why": why})
        self._consumer.close()
        time.sleep(_FAILURE_PAUSE_S)
        self._consumer = Consumer(dict(self._settings.consumer()))
        self._consumer.subscribe([self._raw])

    def _check_topics(self) -> None:
        try:
            found = self._consumer.list_topics(timeout=_METADATA_TIMEOUT_S).topics
        except KafkaException as error:
            raise GovernanceError(f"the broker does not answer: {error.args[0].str()}") from error
        counts = {}
        for role in ("events_raw", "events_governed", "events_quarantine", "audit"):
            name = self._settings.topic(role)
            if name not in found or found[name].error is not None:
                raise GovernanceError(
                    f"the topic {name} does not exist; `atdp up` creates the topics"
                )
            counts[role] = len(found[name].partitions)
        if counts["events_raw"] != counts["events_governed"]:
            raise GovernanceError(
                f"{self._raw} has {counts['events_raw']} partitions and {self._settings.topic('events_governed')} has "
                f"{counts['events_governed']}; make them equal, order per trajectory depends on it"
            )

    def _measure_lag(self) -> None:
        for position in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(position, cached=True)
            if position.offset >= 0 and high >= 0:
                self._metrics.lag.labels(str(position.partition)).set(
                    max(0, high - position.offset)
                )


def _raw_record(message: Message) -> RawRecord:
    kind, milliseconds = message.timestamp()
    # A topic's partitions may hold records of before it began to stamp them itself: each says who
    # stamped it.
    return RawRecord(
        appended=kind == TIMESTAMP_LOG_APPEND_TIME,
        value=message.value() or b"",
        headers=[(name, value or b"") for name, value in message.headers() or ()],
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=_EPOCH
        if kind == TIMESTAMP_NOT_AVAILABLE
        else datetime.fromtimestamp(milliseconds / 1000, UTC),
    )
