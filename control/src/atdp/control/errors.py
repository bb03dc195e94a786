"""What can go wrong in the release flow.

Three fates: do something else, try again, repair an effect.
"""


class ControlError(Exception):
    """Base of everything that the release flow raises on purpose."""


class DecisionRefused(ControlError):
    """A guard of the release flow says no. `code` is stable; nothing was recorded."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DecisionConflict(ControlError):
    """Another writer decided first; nothing was recorded. Read the history and decide again."""


class EffectFailed(ControlError):
    """A decision is recorded but not yet in force; `atdp control reconcile` carries on from there."""


class EngineNotAnswering(EffectFailed):
    """An engine does not answer; one that answers but has no weights yet is not silent."""


class StoreError(ControlError):
    """The event store cannot be read or written, or holds an event that this version does not know."""


class PublishFailed(ControlError):
    """Decisions wait in the outbox; they are published when Kafka can be reached again."""
