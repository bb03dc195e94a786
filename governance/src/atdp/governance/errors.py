"""What can go wrong in the gate, by fate.

Three fates, three families: a *refusal* sets one record aside (quarantine), a *policy error* or a
*home that does not answer* stops the gate until that is mended, and everything else that derives
from `GovernanceError` stops the process. No message ever quotes event data.
"""


class GovernanceError(Exception):
    """Base of every error of this distribution."""


class PolicyError(GovernanceError):
    """A policy cannot be used as written.

    The gate waits, and nothing passes, until it is mended.
    """


class HomeUnavailable(GovernanceError):
    """What the gate decides by (the key store) cannot be read.

    No record is at fault: the gate waits, and nothing passes or is set aside.
    """


class SecretsError(GovernanceError):
    """The home's master secret is missing, damaged or readable by others."""


class Refusal(GovernanceError):
    """This record must not pass: it goes to quarantine under `reason`.

    `reason` is a stable code for people and metrics; `detail` is one sentence without values.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class DetectorError(Refusal):
    """A recognizer failed or ran out of time: what it would have found is unknown, so the record is refused."""

    def __init__(self, detail: str) -> None:
        super().__init__("detector_error", detail)


class EventDropped(GovernanceError):
    """The policy says that an event which holds this entity is dropped."""

    def __init__(self, entity: str) -> None:
        super().__init__(f"the policy drops events that hold {entity}")
        self.entity = entity
