"""CRC-32C (Castagnoli), the checksum of Kafka's batches, which the standard library lacks."""

from collections.abc import Sequence
from typing import Final


def _table() -> Sequence[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """Return the checksum; a megabyte takes a tenth of a second."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
