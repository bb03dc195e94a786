"""The topic of orders, as those who give them write to it."""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from atdp.governance.errors import GovernanceError
from atdp.governance.release.order import QuarantineOrder
from atdp.governance.wrapped_keys import WrappedKeys
from atdp.runtime import KafkaSettings
from atdp.schemas import topic

_TIMEOUT_S: Final = 30.0


class OrdersNotSent(GovernanceError):
    """The broker has not acknowledged all orders.

    Some may be in the log. To give the same orders again is safe: a record leaves quarantine once.
    """


def send_orders(
    orders: Sequence[QuarantineOrder],
    kafka: KafkaSettings,
    keys: WrappedKeys,
    *,
    topic_prefix: str = "",
) -> None:
    """Write orders to the log, each to the partition number of its raw record.

    Returns when the broker has acknowledged all of them.

    Raises:
        OrdersNotSent: it has not.
    """
    name = topic_prefix + topic("quarantine_orders").name
    refused: list[str] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    try:
        producer = Producer(
            {
                **kafka.config(),
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(_TIMEOUT_S * 1000),
                "log_level": 0,
            }
        )
        for order in orders:
            producer.produce(
                name,
                key=order.log_key,
                value=order.encode(),
                partition=order.source_partition,
                headers=order.headers(keys),
                on_delivery=delivered,
            )
            producer.poll(0)
        left = producer.flush(_TIMEOUT_S)
    except (KafkaException, BufferError) as error:
        raise OrdersNotSent(f"the orders cannot be written to {name}: {error}") from error
    if left or refused:
        producer.purge()
        raise OrdersNotSent(
            f"{len(refused) + left} of {len(orders)} orders are not acknowledged "
            f"({refused[0] if refused else 'no answer in time'}); check that the broker runs "
            "(`atdp status`) and give them again"
        )
