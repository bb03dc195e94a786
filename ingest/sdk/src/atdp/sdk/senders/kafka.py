"""Records to Kafka, through librdkafka's idempotent producer.

`acks=all` and idempotence make the producer's own retries exactly-once and ordered within a
partition; the message timeout is infinite, because records that cannot be delivered now belong in
the spool and not in an error. The key decides the partition by librdkafka's default partitioner, as
in every producer of the platform, so a trajectory's events are on one partition whoever sends them.

Records are signed when they are handed to librdkafka, in the shipper's thread: for this topic, with
the key of the recorder that sends them, and with the marks of redeliveries. Those that are handed
over together share a signature.

librdkafka is not usable in a forked child: `reset` makes a new producer there, and the inherited
one is kept from ever being destroyed (its destructor would wait for threads that exist only in the
parent).
"""

import ctypes
import functools
import logging
import os
from collections.abc import Sequence
from typing import Any

from atdp.schemas import SigningKey, UnsignedRecord, sign_together, topic
from atdp.sdk.errors import ConfigurationError
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.senders.ownership import Ownership
from atdp.sdk.senders.port import Receipt

try:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "KafkaSender needs confluent-kafka; install it with: pip install 'atdp-sdk[kafka]'"
    ) from error

_log = logging.getLogger(__name__)

LINGER_MS = 5
"""Milliseconds that librdkafka waits for more records to batch. A smaller value makes smaller
batches, a larger one adds latency."""
_FATAL_FLUSH_S = 5.0
"""Longest wait for the reports of purged records. They are local, so the broker is not waited for.
"""
_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)


class KafkaSender:
    """Delivers to one topic; a record is delivered when all in-sync replicas have it."""

    def __init__(
        self, bootstrap: str, *, topic_name: str | None = None, **conf: str | float | bool
    ) -> None:
        """Connect in the background; a broker that does not answer is no error here.

        Args:
            bootstrap: `host:port`, comma-separated.
            topic_name: default: the platform's raw topic.
            **conf: more librdkafka settings, with `_` for `.` (`security_protocol="SASL_SSL"`).

        Raises:
            ConfigurationError: librdkafka does not know a setting or its value.
        """
        if not bootstrap:
            raise ConfigurationError(
                "KafkaSender needs bootstrap='host:port'; `atdp status` shows the local broker's"
            )
        self.topic = topic_name or topic("events_raw").name
        self._conf: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "message.max.bytes": int(topic("events_raw").config["max.message.bytes"]),
            "linger.ms": LINGER_MS,
            "compression.type": "zstd",
            # As in Java and the gateway: a mix would split a trajectory over partitions.
            "partitioner": "murmur2_random",
            "reconnect.backoff.max.ms": 2000,
            # As everywhere in the platform (see atdp.runtime.kafka_settings): keep the known
            # brokers when none answers.
            "metadata.recovery.strategy": "none",
        } | {name.replace("_", "."): value for name, value in conf.items()}
        self._owner = Ownership("KafkaSender")
        self._signing_key: SigningKey | None = None
        self._receipts: list[Receipt] = []
        self._fatal = False
        self._pid = os.getpid()
        self._producer: Producer | None = self._connect()

    def attach(self, api_key: str) -> None:
        """Belong to one recorder and sign with its key.

        Kafka's own security is configured by settings.
        """
        self._owner.claim()
        self._signing_key = SigningKey.parse(api_key)

    def submit(self, records: Sequence[tuple[int, SpoolRecord]]) -> int:
        """Sign records together and queue them in librdkafka."""
        if self._signing_key is None:
            raise ConfigurationError("KafkaSender has no key to sign with; give it to a Recorder")
        unsigned = [UnsignedRecord(each.key, each.value, each.redelivery) for _, each in records]
        signatures = sign_together(self._signing_key, self.topic, unsigned)
        producer = self._producer = self._producer or self._connect()
        for taken, ((token, record), headers) in enumerate(zip(records, signatures, strict=True)):
            try:
                producer.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=headers,
                    on_delivery=functools.partial(self._delivered, token),
                )
            except BufferError:
                return taken
            except KafkaException as error:
                self._receipts.append(self._receipt(token, error.args[0]))
        return len(records)

    def poll(self, timeout_s: float) -> list[Receipt]:
        """Serve delivery reports; after a fatal error, records in flight come back as `retry`."""
        if self._producer is not None:
            self._producer.poll(0 if self._receipts else timeout_s)
            if self._fatal:
                _give_up(self._producer, _FATAL_FLUSH_S)
                self._producer = None
                self._fatal = False
        receipts, self._receipts = self._receipts, []
        return receipts

    def reset(self) -> None:
        """Give the producer up; the next record makes a new one."""
        producer, self._producer = self._producer, None
        self._fatal = False
        if producer is not None and os.getpid() != self._pid:
            # One reference is never released, so this process never destroys the producer.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(producer))
        elif producer is not None:
            _give_up(producer, 0)
        self._receipts = []
        self._pid = os.getpid()

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for records in flight."""
        if self._producer is not None:
            self._producer.flush(timeout_s)
        self.reset()

    def _connect(self) -> Producer:
        try:
            return Producer({**self._conf, "error_cb": self._on_error}, logger=_log)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"KafkaSender: librdkafka refuses the configuration: {error}"
            ) from error

    def _on_error(self, error: KafkaError) -> None:
        self._fatal = self._fatal or error.fatal()

    def _delivered(self, token: int, error: KafkaError | None, _message: Message) -> None:
        self._receipts.append(
            Receipt(token, "delivered") if error is None else self._receipt(token, error)
        )

    def _receipt(self, token: int, error: KafkaError) -> Receipt:
        self._fatal = self._fatal or error.fatal()
        return Receipt(token, "refused" if error.code() in _REFUSED else "retry", error.str())


def _give_up(producer: Producer, flush_s: float) -> None:
    producer.purge()
    producer.flush(flush_s)  # delivers the reports of the purged records
