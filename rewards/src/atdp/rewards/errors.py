"""Errors of the derivation of rewards."""

from atdp.runtime import PlatformError


class RewardError(PlatformError):
    """Base of every error that `atdp.rewards` raises."""


class RulesError(RewardError):
    """A rules file is wrong; no reward is derived for its tenant until it is repaired."""


class EmissionFailed(RewardError):
    """Kafka did not acknowledge derived rewards; they are derived and sent again."""
