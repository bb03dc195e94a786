"""The headers of a Kafka record, as anybody may have written them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message


def record_headers(message: "Message") -> Sequence[tuple[str, bytes]]:
    """Return the headers of a record; none when a name is no UTF-8.

    The client raises an error for such a name, and the broker accepts it. A record whose headers
    cannot be read is not signed, so it is refused as that.
    """
    try:
        headers = message.headers()
    except UnicodeDecodeError:
        return ()
    return [(name, value or b"") for name, value in headers or ()]
