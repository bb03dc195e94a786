"""Publication of evaluations on the topic `atdp.evaluations`, each at least once.

Without a broker, records wait in the outbox of the home, and the next publisher sends them; the
scheduler process publishes regularly.

An evaluation that is a look at a candidate is sent after the release flow has recorded the look, so
that every row of a look has its decision. Until then its record is held in the outbox. If the
process is killed in between, the next publisher finds the recorded gate and sends the record.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from atdp.control import (
    STORE_FILE_NAME,
    DecisionRefused,
    KafkaTopic,
    PublishFailed,
    ReleaseStore,
    line_name,
)
from atdp.replay import ReplayReport
from atdp.runtime import Home, KafkaSettings, PlatformError, SecretKeyError, SignedTopic, utc_now
from atdp.schemas import topic
from atdp.stack.evaluations.evaluation_outbox import EvaluationOutbox
from atdp.stack.evaluations.evaluation_record import EvaluationOccasion, evaluation_record

_LONGEST_HELD: Final = timedelta(hours=1)
"""A record whose gate is not recorded after this time is dropped: its evaluation was given up. A
process that records the gate still later puts the record in again."""

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
    evaluation again adds no row.
    """
    occasion = EvaluationOccasion(schedule=schedule, logical_time=logical_time)
    EvaluationOutbox.of(home).add(evaluation_record(report, occasion, utc_now()))
    publish_pending(home)


def publish_recorded(home: Home, report: ReplayReport, record_gate: Callable[[], object]) -> None:
    """Record the gate of an evaluation, and publish the evaluation.

    The evaluation is published where the gate is recorded, also when that is not in force yet, and
    not published where it is refused.
    """
    record = evaluation_record(report, EvaluationOccasion(), utc_now())
    outbox = EvaluationOutbox.of(home)
    outbox.hold(record)
    try:
        record_gate()
        outbox.add(record)
    except DecisionRefused:
        outbox.drop(record)
        raise
    finally:
        publish_pending(home)


def publish_pending(home: Home) -> int:
    """Send what waits in the outbox of a home; returns how many records were sent, 0 if not all.

    Nothing is sent when no broker is configured. What is not acknowledged, or cannot be signed,
    stays in the outbox, with a warning.
    """
    outbox = EvaluationOutbox.of(home)
    _release_recorded(home, outbox)
    if not outbox.waiting():
        return 0
    try:
        settings = KafkaSettings.from_env(home)
    except PlatformError:
        return 0
    largest = int(topic("evaluations").config["max.message.bytes"])
    config = {**settings.config(), "message.max.bytes": largest}
    try:
        signatures = SignedTopic.of_home(home, "evaluations")
        return outbox.publish_to(KafkaTopic(signatures, config))
    except (PublishFailed, SecretKeyError) as error:
        _log.warning("evaluations wait in the outbox: %s", error)
        return 0


def _release_recorded(home: Home, outbox: EvaluationOutbox) -> None:
    """Put the held records in whose gate is recorded; their process was killed before it did."""
    held = outbox.held()
    if not held or not (home.control / STORE_FILE_NAME).exists():
        return
    with ReleaseStore(home.control) as store:
        for record in held:
            if _is_recorded(store, record):
                outbox.add(record)
            elif utc_now() - record["occurred_at"] > _LONGEST_HELD:
                outbox.drop(record)


def _is_recorded(store: ReleaseStore, record: Mapping[str, Any]) -> bool:
    version = store.state(line_name(record["model"])).versions.get(record["candidate"])
    gates = () if version is None else version.gates
    return any(gate.report_sha256 == record["report_sha256"] for gate in gates)
