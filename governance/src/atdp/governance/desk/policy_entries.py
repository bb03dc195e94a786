"""Names of `atdp.access`, which holds this module now; import them from there."""

from atdp.access import (
    BODIES,
    REDACTION,
    ActivatedContent,
    ApprovedContent,
    DocumentKind,
    DraftedContent,
    PolicyBody,
    PolicySettings,
    policy_entry,
)

__all__ = [
    "BODIES",
    "REDACTION",
    "ActivatedContent",
    "ApprovedContent",
    "DocumentKind",
    "DraftedContent",
    "PolicyBody",
    "PolicySettings",
    "policy_entry",
]
