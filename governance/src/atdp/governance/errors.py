"""Errors of governance, in families by what happens next.

A `Refusal` sets one record aside (quarantine). A `HomeUnavailable` halts the governance stage until
the cause is repaired. Every other `GovernanceError` ends the process. No
message quotes event data.
"""


class GovernanceError(Exception):
    """Base of every error of this distribution."""


class PolicyError(GovernanceError):
    """A policy cannot be used as written, or not on this machine.

    While an active policy is so, the records of its tenants go to quarantine.
    """


class HomeUnavailable(GovernanceError):
    """The register or a key store, which every decision depends on, cannot be read.

    The record is not the cause: the stage waits, and nothing passes or is set aside.
    """


class SecretsError(GovernanceError):
    """A secret of the home is missing, damaged or readable by other users, or opens nothing."""


class KeyDestroyed(SecretsError):
    """The home does not have a key that a quarantined record names."""


class Refusal(GovernanceError):
    """The record must not pass; it goes to quarantine under `reason`.

    `reason` is a stable code for people and metrics. `detail` is one sentence without values of the
    event.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class DetectorError(Refusal):
    """A recognizer failed or timed out.

    Its findings are unknown, so the record is refused.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("detector_error", detail)


class PreviewError(GovernanceError):
    """A policy cannot be previewed. The message says what to do."""


class UnreadableLabels(GovernanceError):
    """A file of labelled texts cannot be read. The message names the text by its number."""


class EventDropped(GovernanceError):
    """The policy drops events that hold this entity."""

    def __init__(self, entity: str) -> None:
        super().__init__(f"the policy drops events that hold {entity}")
        self.entity = entity


class PolicyUnknown(GovernanceError):
    """There is no such policy or version, or the caller may not see it."""


class PolicyDecisionRefused(GovernanceError):
    """A decision about a policy breaks a rule of the register; it has no effect."""


class PolicyDecisionDenied(GovernanceError):
    """The caller's role or tenant does not allow the decision."""


class PolicyDecisionUnconfirmed(GovernanceError):
    """The register failed while a decision was written; it may or may not hold the decision."""
