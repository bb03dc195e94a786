"""What may be said of an exception where people read it: in the host's log, in `flush()`, in a gap event.

A message may quote the event that it is about (`could not convert string to float: 'Jane'`), and
nobody governed that. So the type is named, and the message only where it is known to hold no data:
our own errors, the contract's, the operating system's, Kafka's.
"""

from atdp.schemas import SchemaError
from atdp.sdk.errors import SdkError


def cause_of(error: BaseException) -> str:
    """Type of an exception, with its message only when that cannot quote event data."""
    name = type(error).__name__
    from_kafka = type(error).__module__.partition(".")[0] in {"cimpl", "confluent_kafka"}
    return (
        f"{name}: {error}"
        if from_kafka or isinstance(error, SchemaError | SdkError | OSError)
        else name
    )
