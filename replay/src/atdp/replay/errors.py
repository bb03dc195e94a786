"""Exceptions of the replay distribution: one base, one class per boundary that can fail."""


class ReplayError(Exception):
    """Base of everything that `atdp.replay` raises on purpose."""

    exit_code = 3
    """What a command ends with: the same as for the verdict ERROR."""


class ConfigError(ReplayError, ValueError):
    """A threshold or option is outside what it can mean."""


class DatasetError(ReplayError):
    """The pinned dataset cannot be read, or holds values that no estimator can use."""


class LineageError(ReplayError):
    """The weight registry does not say what a version was trained on."""


class ScoringError(ReplayError):
    """An inference engine did not give the log-probabilities that were asked for."""
