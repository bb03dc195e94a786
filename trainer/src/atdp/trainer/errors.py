"""Everything this distribution raises on purpose; the class says which boundary failed."""


class TrainerError(Exception):
    """Base of all errors of atdp.trainer; the message says what happened, on what, and what to do next."""


class OptionsError(TrainerError):
    """What was asked of a training cannot be done; nothing was trained."""


class RegistryError(TrainerError):
    """The weight registry has no such version, or a version's files no longer match its manifest."""


class SourceError(TrainerError):
    """The trajectory source cannot give what the run needs (nothing governed, a vanished snapshot, an unreachable lake)."""


class PlanError(TrainerError):
    """A plan cannot be made or differs from the one that was written before a crash."""


class CheckpointError(TrainerError):
    """A checkpoint is missing, incomplete or was made by a run with other settings."""


class TrainingError(TrainerError):
    """A step produced something that must not be trained on or published (for example a non-finite loss)."""
