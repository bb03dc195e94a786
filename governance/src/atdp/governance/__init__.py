"""The gate between the raw event log and everything that learns from it: redaction, consent, audit.

Importing this package is light; recognizers are loaded when a policy is compiled.
"""

from atdp.governance.errors import (
    DetectorError,
    GovernanceError,
    PolicyError,
    Refusal,
    SecretsError,
)

__all__ = ["DetectorError", "GovernanceError", "PolicyError", "Refusal", "SecretsError"]
