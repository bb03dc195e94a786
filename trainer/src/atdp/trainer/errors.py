"""The errors that this distribution raises on purpose; the class names the boundary that failed."""


class TrainerError(Exception):
    """Base of all errors of atdp.trainer.

    The message says what happened, on what, and what to do next.
    """


class OptionsError(TrainerError):
    """The options of a training are invalid; nothing was trained."""


class RegistryError(TrainerError):
    """The weight registry has no such version, or a version's files do not match its manifest."""


class SourceError(TrainerError):
    """The source of trajectories cannot give what the run needs.

    Examples: no governed trajectory, a vanished snapshot, an unreachable lake.
    """


class PlanError(TrainerError):
    """A plan cannot be made, or differs from the one that was written before a crash."""


class CheckpointError(TrainerError):
    """A checkpoint is missing, incomplete or was made by a run with other settings."""


class TrainingError(TrainerError):
    """A step cannot be made, or gave a result that must not be published (a non-finite loss)."""
