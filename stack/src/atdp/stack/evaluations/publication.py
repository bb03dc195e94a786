"""Publication of evaluations on the topic `atdp.evaluations`, each at least once.

Without a broker, records wait in the outbox of the home, and the next publisher sends them.
"""

import logging
from datetime import datetime

from atdp.control import KafkaTopic, PublishFailed
from atdp.replay import ReplayReport, StoredRuns
from atdp.runtime import Home, KafkaSettings, PlatformError, utc_now
from atdp.schemas import topic
from atdp.stack.evaluations.evaluation_outbox import EvaluationOutbox
from atdp.stack.evaluations.evaluation_record import EvaluationOccasion, evaluation_record

_log = logging.getLogger("atdp.stack.evaluations")


def publish_evaluation(
    home: Home,
    report: ReplayReport,
    *,
    schedule: str | None = None,
    logical_time: datetime | None = None,
) -> None:
    """Publish an evaluation; its record is on the disk of the home when this returns.

    `schedule` and `logical_time` (with a time zone) name the tick of a schedule. Publishing an
    evaluation again adds no row. The page of the report is written beside the stored run.
    """
    occasion = EvaluationOccasion(schedule=schedule, logical_time=logical_time)
    StoredRuns.of(home).write_page(report)
    outbox_of(home).add(evaluation_record(report, occasion, utc_now()))
    publish_pending(home)


def publish_pending(home: Home) -> int:
    """Send what waits in the outbox of a home; returns how many records were sent, 0 if not all.

    Nothing is sent when no broker is configured. What is not acknowledged stays in the outbox, with
    a warning.
    """
    outbox = outbox_of(home)
    if not outbox.waiting():
        return 0
    try:
        settings = KafkaSettings.from_env(home)
    except PlatformError:
        return 0
    definition = topic("evaluations")
    largest = int(definition.config["max.message.bytes"])
    config = {**settings.config(), "message.max.bytes": largest}
    try:
        return outbox.publish_to(KafkaTopic(definition.name, config))
    except PublishFailed as error:
        _log.warning("evaluations wait in the outbox: %s", error)
        return 0


def outbox_of(home: Home) -> EvaluationOutbox:
    """Return the outbox of a home."""
    return EvaluationOutbox(home.evaluations / "outbox")
