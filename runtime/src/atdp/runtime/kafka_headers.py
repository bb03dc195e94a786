"""The headers of a Kafka record, as anybody may have written them."""

from collections.abc import Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import Message

_HEADERS: Final = methodcaller("headers")
"""`message.headers()` in Python code is not the same. From Python 3.11 on, the interpreter does not
check the result of a call that it has specialized. The list below then ends the process."""


def record_headers(message: "Message") -> Sequence[tuple[str, bytes]]:
    """Return the headers of a record; none when a name is no UTF-8.

    The broker accepts such a name. A record whose headers cannot be read is not signed, so it is
    refused as that.
    """
    try:
        headers = _HEADERS(message)
    except SystemError as error:
        # confluent-kafka 2.16 puts no string in the place of such a name, and keeps what it has
        # built: a second call would return it without an error, and its use ends the process.
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        message.set_headers([])
        return ()
    return [(name, value or b"") for name, value in headers or ()]
