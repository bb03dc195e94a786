"""The register in Kafka: one compacted topic with one partition.

Every call has an end of its own: when the broker does not answer in time, or the topic is missing,
it raises. Entries whose signature is wrong have no effect and are counted. When no entry at all has
a valid signature, the secret of this home is not the one that the log was written with, and reading
fails: an empty register would permit more than the real one.
"""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from atdp.runtime.errors import RegisterUnavailable
from atdp.runtime.home import Home
from atdp.runtime.kafka_headers import record_headers
from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.register.entry import SIGNATURE, RegisterEntry, is_signed, sign
from atdp.runtime.secret_keys import load_secret_key
from atdp.runtime.signed_output import load_output_secret
from atdp.schemas import LOOK_GROUPS, header, topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

_log = logging.getLogger("atdp.register")
_TIMEOUT_S: Final = 10.0
"""Longest time of one call. A broker that starts again answers within a few seconds."""
_PAUSE_S: Final = 0.1
"""Pause before a partition without a leader is asked again."""
_PARTITION: Final = 0


class KafkaRegister:
    """The register of a stack; see `Register`."""

    def __init__(
        self,
        settings: KafkaSettings,
        secret: bytes,
        *,
        topic_prefix: str = "",
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Connect when it is first used. `timeout_s` bounds each call."""
        self._settings = settings
        self._secret = secret
        self._topic = topic_prefix + topic("register").name
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._next = 0
        self._valid = 0
        self.unsigned = 0
        """Entries that were passed over because their signature is wrong."""

    def read(self) -> Sequence[RegisterEntry]:
        """See `Register`."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout_s
        try:
            messages = self._messages_once_led(deadline)
        except KafkaException as error:
            self._disconnect()
            raise RegisterUnavailable(
                f"the register cannot be read: {error.args[0].str()} (topic {self._topic} at "
                f"{self._settings.bootstrap}); check that the broker runs (`atdp status`)"
            ) from error
        except RegisterUnavailable:
            self._disconnect()
            raise
        entries = [entry for message in messages if (entry := self._entry(message)) is not None]
        self._valid += len(entries)
        self.unsigned += len(messages) - len(entries)
        if messages:
            self._next = _offset(messages[-1]) + 1
        if self.unsigned and not self._valid:
            self._forget()
            raise RegisterUnavailable(
                f"no entry of {self._topic} is signed with this home's register secret; "
                "copy secrets/register.key from the home that wrote them"
            )
        return entries

    def append(self, entry: RegisterEntry) -> int:
        """See `Register`."""
        from confluent_kafka import KafkaException

        value = entry.encode()
        delivered: list[tuple[object, Message]] = []
        try:
            producer = self._connected_producer()
            producer.produce(
                self._topic,
                key=entry.log_key,
                value=value,
                partition=_PARTITION,
                headers=[(SIGNATURE, sign(self._secret, entry.log_key, value))],
                on_delivery=lambda error, message: delivered.append((error, message)),
            )
            producer.flush(self._timeout_s)
        except (KafkaException, BufferError) as error:
            raise RegisterUnavailable(f"the register cannot be written: {error}") from error
        if not delivered or delivered[0][0] is not None:
            # A request that is still under way must not have its effect after this error.
            producer.purge()
            why = delivered[0][0] if delivered else f"no answer in {self._timeout_s:g} s"
            raise RegisterUnavailable(
                f"the register has not acknowledged the entry ({why}); read it before you repeat it"
            )
        return _offset(delivered[0][1])

    def close(self) -> None:
        """See `Register`."""
        self._disconnect()
        self._producer = None

    def _messages_once_led(self, deadline: float) -> list["Message"]:
        """Return the next records; wait for a leader, which a new topic has a little later."""
        from confluent_kafka import KafkaError, KafkaException

        no_leader = {
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.REPLICA_NOT_AVAILABLE,
        }
        while True:
            try:
                return self._messages(deadline)
            except KafkaException as error:
                if error.args[0].code() not in no_leader or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)

    def _messages(self, deadline: float) -> list["Message"]:
        """Return the records from the next one to read up to the end of the log now."""
        from confluent_kafka import TopicPartition

        consumer = self._connected_consumer()
        place = TopicPartition(self._topic, _PARTITION)
        found = consumer.get_watermark_offsets(place, timeout=self._timeout_s, cached=False)
        if found is None:
            raise RegisterUnavailable(f"{self._topic}: the broker did not answer in time")
        low, end = found
        if end < self._next:
            raise RegisterUnavailable(
                f"{self._topic} ends at {end}, before the entry {self._next - 1} that was read: "
                "the topic was made anew; restore it, or start the services again"
            )
        if max(low, self._next) >= end:
            return []
        # It is assigned only while there is something to read: a consumer that waits for records
        # answers the question for the end of the log half a second later.
        consumer.assign([TopicPartition(self._topic, _PARTITION, self._next)])
        try:
            return self._messages_before(end, consumer, deadline)
        finally:
            consumer.unassign()

    def _messages_before(self, end: int, consumer: "Consumer", deadline: float) -> list["Message"]:
        from confluent_kafka import KafkaError, KafkaException

        messages: list[Message] = []
        # A log that compaction left without a last record ends with the event of its end alone.
        while not messages or _offset(messages[-1]) + 1 < end:
            message = consumer.poll(max(deadline - time.monotonic(), 0.0))
            if message is None:
                raise RegisterUnavailable(
                    f"{self._topic} could not be read to its end in {self._timeout_s:g} s"
                )
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif _offset(message) >= end:
                break
        return messages

    def _entry(self, message: "Message") -> RegisterEntry | None:
        key, value = message.key() or b"", message.value() or b""
        signature = header(record_headers(message), SIGNATURE)
        entry = None
        if is_signed(self._secret, key, value, signature):
            entry = RegisterEntry.decode(value, offset=_offset(message))
        if entry is None:
            _log.error(
                "an entry of the register is not signed by this stack and has no effect",
                extra={"offset": message.offset()},
            )
        return entry

    def _connected_consumer(self) -> "Consumer":
        from confluent_kafka import Consumer

        if self._consumer is None:
            # It is no member of a group: the id is required, and never used for offsets.
            self._consumer = Consumer(
                {
                    **self._settings.config(),
                    "group.id": f"{LOOK_GROUPS}{self._topic}",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 20,
                    "log_level": 0,
                }
            )
        return self._consumer

    def _connected_producer(self) -> "Producer":
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer(
                {
                    **self._settings.config(),
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "delivery.timeout.ms": int(self._timeout_s * 1000),
                    "log_level": 0,
                }
            )
        return self._producer

    def _disconnect(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _forget(self) -> None:
        """Read everything again at the next call."""
        self._disconnect()
        self._next = self._valid = self.unsigned = 0


def open_register(home: Home, *, topic_prefix: str = "") -> KafkaRegister:
    """Return the register of the stack of a home.

    Raises:
        SettingsError: no broker is known.
        SecretKeyError: the secret of the register cannot be used.
    """
    secret = load_secret_key(
        home.register_secret_file, if_lost="no decision in the register holds any more"
    )
    return KafkaRegister(KafkaSettings.from_env(home), secret, topic_prefix=topic_prefix)


def require_register_secret(home: Home, *, topic_prefix: str = "") -> None:
    """Check that the secret of a home is the one with which its stack signs.

    A reader with another secret would refuse every record of the platform and go past it.

    Raises:
        SettingsError: no broker is known.
        SecretKeyError: the secret is missing or cannot be used.
        RegisterUnavailable: no entry of the register is signed with it, or the register cannot be
            read.
    """
    load_output_secret(home)
    register = open_register(home, topic_prefix=topic_prefix)
    try:
        register.read()
    finally:
        register.close()


def _offset(message: "Message") -> int:
    offset: int | None = message.offset()
    if offset is None:
        raise RegisterUnavailable("the broker gave a record without an offset")
    return offset
