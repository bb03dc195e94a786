"""The text of an exception for the host's log, for `flush()` and for gap events.

A message may quote the event that it is about (`could not convert string to float: 'Jane'`), and
governance has not cleaned that text. So the text names the type of the exception, and its message
only where that is known to hold no data: in errors of the SDK, of the contract, of the operating
system and of Kafka.
"""

from atdp.schemas import SchemaError
from atdp.sdk.errors import SdkError


def cause_of(error: BaseException) -> str:
    """Return the type of an exception, with its message only when that cannot quote event data."""
    name = type(error).__name__
    from_kafka = type(error).__module__.partition(".")[0] in {"cimpl", "confluent_kafka"}
    return (
        f"{name}: {error}"
        if from_kafka or isinstance(error, SchemaError | SdkError | OSError)
        else name
    )
