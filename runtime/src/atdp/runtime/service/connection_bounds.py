"""Bounds on the connections of every HTTP server of the platform."""

from typing import Final

ARRIVAL_S: Final = 60.0
"""Seconds for a whole request. 32 MiB arrive within them at 0.6 MB/s."""
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_CONNECTIONS: Final = 1_000
"""Open connections. A request on a further one is answered 503; a health server closes it."""
