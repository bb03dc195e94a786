"""Questions to a Kafka cluster: does it answer?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def quiet_client(bootstrap: str, **settings: str) -> "AdminClient":
    """Return a client that prints nothing while no broker answers, and reconnects quickly."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            **settings,
        }
    )


def answers(client: "AdminClient", timeout_s: float = 2.0) -> bool:
    """Return True when a Kafka cluster answers a metadata request."""
    from confluent_kafka import KafkaException

    try:
        return bool(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False
