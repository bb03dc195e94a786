"""A readiness check: the topics that a service needs exist, and it may use them."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from atdp.runtime.kafka_settings import KafkaSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_PERIOD_S: Final = 5.0
"""The check is asked every second; a topic that is gone need not be noticed faster than this."""
_TIMEOUT_S: Final = 2.0
"""Shorter than the time-out of a health probe."""


class TopicsCheck:
    """Asks a cluster for topics by name.

    While the cluster does not answer, the last result holds: the service's own checks say so.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        names: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._names = names
        self._clock = clock
        self._client: AdminClient | None = None
        self._asked_s = -_PERIOD_S
        self._problem: str | None = None

    def __call__(self) -> str | None:
        """Return one sentence about what is missing, None when nothing is."""
        if self._clock() - self._asked_s >= _PERIOD_S:
            self._asked_s = self._clock()
            self._problem = self._ask()
        return self._problem

    def _ask(self) -> str | None:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            self._client = AdminClient({**self._settings.config(), "log_level": 0})
        futures = self._client.describe_topics(
            TopicCollection(list(self._names)), request_timeout=_TIMEOUT_S
        )
        reasons = []
        for name, future in futures.items():
            try:
                future.result(_TIMEOUT_S)
            except (KafkaException, TimeoutError) as error:
                reason = error.args[0] if isinstance(error, KafkaException) else None
                if reason is None or reason.code() not in (
                    KafkaError.UNKNOWN_TOPIC_OR_PART,
                    KafkaError.TOPIC_AUTHORIZATION_FAILED,
                ):
                    return self._problem
                reasons.append(f"{name}: {reason.str()}")
        return "; ".join(reasons) or None
