"""Record headers: the key that signed a record, and the mark of a redelivery."""

from collections.abc import Sequence

KEY_ID = "atdp-key-id"
SIGNATURE = "atdp-signature"
SIGNATURE_PATH = "atdp-signature-path"
"""Of a record that shares its signature with others: the way from its hash to the signed one."""
REDELIVERY = "atdp-redelivery"
"""`b"1"` when the producer may have sent this event before. It is information for the audit; the
lake looks up every event by its id, with and without this header."""
REGOVERNED = "atdp-regoverned"
"""On a governed record that replaces the earlier one of the same event id: the number of learned
values with which it was governed again, in decimal digits."""


def header(headers: Sequence[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """Return the last value of the header `name`, or None when it is absent."""
    value = None
    for key, item in headers or ():
        if key == name:
            value = item
    return value
