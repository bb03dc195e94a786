"""Quarantined records as a person inspects them."""

from collections.abc import Mapping
from typing import Any

from atdp.governance.errors import GovernanceError
from atdp.governance.quarantine import unseal
from atdp.governance.release.order import QuarantinePlace
from atdp.governance.stage.place_reader import PlaceReader
from atdp.governance.stage.settings import StageSettings
from atdp.governance.wrapped_keys import WrappedKeys
from atdp.runtime import KafkaSettings
from atdp.schemas import SchemaError, decode_record


class RecordGone(GovernanceError):
    """The quarantine topic does not hold a record at this place."""


def read_quarantined(
    place: QuarantinePlace,
    kafka: KafkaSettings,
    *,
    output_secret: bytes,
    topic_prefix: str = "",
) -> Mapping[str, Any]:
    """Return the quarantine record at a place; its payload stays sealed.

    Raises:
        RecordNotSigned: the record there was not written by governance.
        RecordGone: there is none.
        GovernanceError: the broker does not answer.
    """
    reader = PlaceReader(
        StageSettings(kafka=kafka, output_secret=output_secret, topic_prefix=topic_prefix)
    )
    try:
        value = reader.quarantined(place.partition, place.offset)
    finally:
        reader.close()
    if value is None:
        raise RecordGone(
            f"there is no record at {place}: its retention is over, or it never existed"
        )
    return decode_record(value)[1]


def open_payload(keys: WrappedKeys, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a quarantine record holds: the event's fields, or its bytes in hex.

    The result has the raw values. Whoever calls this must have recorded who will see them.

    Raises:
        SecretsError, HomeUnavailable: the payload cannot be opened.
    """
    value = unseal(keys, record)
    try:
        name, event = decode_record(value)
    except SchemaError as error:
        return {"undecodable": str(error), "bytes_hex": value.hex()}
    return {name: event}
