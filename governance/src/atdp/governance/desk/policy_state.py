"""Names of `atdp.access`, which holds this module now; import them from there."""

from atdp.access import (
    ActivePolicy,
    DraftState,
    PolicyDraft,
    PolicyState,
)

__all__ = [
    "ActivePolicy",
    "DraftState",
    "PolicyDraft",
    "PolicyState",
]
