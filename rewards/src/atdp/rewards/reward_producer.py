"""Derived rewards and verdicts to the raw topic, signed with the recorder's key.

They pass governance like the events of every other producer. An event is sent once it is
acknowledged by all in-sync replicas; a repeated event has the same id and counts once.
"""

from collections.abc import Sequence
from typing import Protocol, Self

from confluent_kafka import KafkaException, Producer

from atdp.rewards.errors import EmissionFailed, RewardError
from atdp.runtime import Home, KafkaSettings
from atdp.schemas import Event, SigningKey, UnsignedRecord, encode, sign_together, topic

_FLUSH_TIMEOUT_S = 60.0
_FULL_QUEUE_WAIT_S = 0.1


class RewardProducer(Protocol):
    """Takes reward events to the log."""

    def send(self, events: Sequence[Event]) -> None:
        """Return once all events are acknowledged.

        Raises:
            EmissionFailed: at least one was not; any of them may be in the log.
        """
        ...


class KafkaRewardProducer:
    """Sends to the raw topic of a home's broker."""

    def __init__(self, kafka: KafkaSettings, key: SigningKey) -> None:
        self._key = key
        self._topic = topic("events_raw").name
        self._producer = Producer(
            kafka.config(
                acks="all",
                enable_idempotence=True,
                compression_type="zstd",
                partitioner="murmur2_random",
                message_timeout_ms=int(_FLUSH_TIMEOUT_S * 1000),
            )
        )

    @classmethod
    def of_home(cls, home: Home) -> Self:
        """Return a producer of a home, which signs with the recorder's key.

        Raises:
            RewardError: the recorder's key cannot be read.
        """
        try:
            key = SigningKey.parse(home.recorder_key_file.read_text("utf-8").strip())
        except OSError as error:
            raise RewardError(
                f"cannot read the recorder's key ({error}); start the stack with `atdp up`"
            ) from error
        return cls(KafkaSettings.from_env(home), key)

    def send(self, events: Sequence[Event]) -> None:
        """See `RewardProducer`."""
        failed: list[str] = []
        records = [UnsignedRecord(event.key, encode(event)) for event in events]
        signatures = sign_together(self._key, self._topic, records)
        for record, headers in zip(records, signatures, strict=True):
            self._produce(record, headers, failed)
        left = self._producer.flush(_FLUSH_TIMEOUT_S)
        if left or failed:
            raise EmissionFailed(
                f"{left + len(failed)} of {len(events)} events were not acknowledged"
                f"{': ' + failed[0] if failed else ''}; they are sent again"
            )

    def _produce(
        self, record: UnsignedRecord, headers: list[tuple[str, bytes]], failed: list[str]
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=headers,
                    on_delivery=lambda error, _message: (
                        failed.append(error.str()) if error is not None else None
                    ),
                )
            except BufferError:
                self._producer.poll(_FULL_QUEUE_WAIT_S)
            except KafkaException as error:
                failed.append(str(error))
                return
            else:
                self._producer.poll(0)
                return
