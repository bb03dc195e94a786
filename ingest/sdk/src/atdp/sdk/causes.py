"""The text of an exception for the host's log, for `flush()` and for gap events.

A message may quote the event that it is about (`could not convert string to float: 'Jane'`), and
governance has not cleaned that text. So the text names the type of the exception, and its message
only where that is known to hold no data: in errors of the SDK, of the contract, of the operating
system and of Kafka.
"""

from atdp.schemas import SchemaError
from atdp.sdk.errors import SdkError


def cause_in_event(error: BaseException) -> str:
    """Return the cause why an event cannot be made, where an error of the system is the host's.

    The making of an event makes no system calls, but what a host hands over may: a generator of
    messages may read them from a server, and name it with all that it was asked.
    """
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, SchemaError | SdkError) else name


def cause_of(error: BaseException) -> str:
    """Return the type of an exception, with its message only when that cannot quote event data."""
    name = type(error).__name__
    from_kafka = type(error).__module__.partition(".")[0] in {"cimpl", "confluent_kafka"}
    is_of_system = from_kafka or isinstance(error, OSError)
    return f"{name}: {error}" if is_of_system else cause_in_event(error)
