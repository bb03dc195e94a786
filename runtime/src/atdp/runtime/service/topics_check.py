"""A readiness check: the topics that a service needs exist, and it may use them."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from atdp.runtime.kafka_settings import KafkaSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_PERIOD_S: Final = 5.0
"""Seconds between two questions; a topic that is gone need not be noticed faster than this."""
_TIMEOUT_S: Final = 10.0


class TopicsCheck:
    """Asks a cluster for topics by name, without waiting for the answer.

    A health probe that waits for a busy broker would have the service restarted. While the cluster
    does not answer, the last result holds: the service's own checks report that.
    """

    def __init__(
        self, settings: KafkaSettings, names: Sequence[str], *, period_s: float = _PERIOD_S
    ) -> None:
        self._settings = settings
        self._names = names
        self._period_s = period_s
        self._client: AdminClient | None = None
        self._asked_s = -period_s
        self._answers: Mapping[str, Future[Any]] = {}
        self._problem: str | None = None

    def __call__(self) -> str | None:
        """Return one sentence about what is missing, None when nothing is."""
        if all(answer.done() for answer in self._answers.values()):
            self._problem = self._evaluated()
            if time.monotonic() - self._asked_s >= self._period_s:
                self._asked_s = time.monotonic()
                self._answers = self._ask()
        return self._problem

    def _ask(self) -> Mapping[str, Future[Any]]:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            self._client = AdminClient({**self._settings.config(), "log_level": 0})
        answers: Mapping[str, Future[Any]] = self._client.describe_topics(
            TopicCollection(list(self._names)), request_timeout=_TIMEOUT_S
        )
        return answers

    def _evaluated(self) -> str | None:
        from confluent_kafka import KafkaError, KafkaException

        reasons = []
        for name, answer in self._answers.items():
            error = answer.exception()
            if error is None:
                continue
            reason = error.args[0] if isinstance(error, KafkaException) else None
            if reason is None or reason.code() not in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
            ):
                return self._problem
            reasons.append(f"{name}: {reason.str()}")
        return "; ".join(reasons) or None
