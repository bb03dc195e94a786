"""Names of `atdp.access`, which holds this module now; import them from there."""

from atdp.access import (
    PolicyLog,
    RefusedEntry,
)

__all__ = [
    "PolicyLog",
    "RefusedEntry",
]
