"""Exceptions of the replay distribution: one base, one class for each boundary that can fail."""

from typing import ClassVar


class ReplayError(Exception):
    """Base of everything that `atdp.replay` raises on purpose."""

    exit_code = 3
    """Exit code of a command that ends with this error: the same as for the verdict ERROR."""
    code: ClassVar[str] = "replay_error"
    """Stable code of the reason in a report whose verdict is ERROR because of this error."""


class ConfigError(ReplayError, ValueError):
    """A threshold or option is outside its permitted range."""

    code = "config_error"


class ReplayDataError(ReplayError):
    """The pinned dataset cannot be read, or holds values that no estimator can use."""

    code = "dataset_error"


class LineageError(ReplayError):
    """The weight registry does not record what a version was trained on."""

    code = "lineage_error"


class ScoringError(ReplayError):
    """An inference engine did not return the log-probabilities that were requested."""

    code = "scoring_error"


class NoEngineError(ReplayError):
    """No engine serves the version that is to be scored, and none could be made to serve it."""

    code = "engine_error"


class RepeatError(ReplayError):
    """A run cannot be repeated: it is not stored here, or an input is not as it was."""

    code = "repeat_error"


class TurnRefused(ReplayError):
    """An engine does not take a conversation, for example because it is too long."""

    code = "turn_refused"


class HermeticError(ReplayError):
    """Something in a hermetic replay tried to reach more than the engine, or to start a process."""

    code = "not_hermetic"
