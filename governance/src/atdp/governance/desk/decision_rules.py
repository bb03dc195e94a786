"""Names of `atdp.access`, which holds this module now; import them from there."""

from atdp.access import (
    refusal_of,
)

__all__ = [
    "refusal_of",
]
