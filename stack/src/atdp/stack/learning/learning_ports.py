"""The ports of the decision loop, and the events that it reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Protocol

from atdp.control import CanaryAnalysis, Manifest, ReleaseFlow
from atdp.stack.learning.held_out_evaluation import Evaluator
from atdp.stack.learning.trainer_process import Trainer


class PublishedVersions(Protocol):
    """The published versions of the model."""

    def published_by(self, run: str) -> list[str]:
        """Return the versions that a run has published, oldest first."""
        ...

    def ages(self) -> Mapping[str, int]:
        """Return the age of every version, in published versions from the first."""
        ...

    def manifest(self, version: str) -> Manifest:
        """Return the manifest of a version, with the digest of its weights."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningEvent:
    """One event of learning, for people and programs; it holds no content of sessions."""

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPorts:
    """Everything around the loop."""

    flow: ReleaseFlow
    versions: PublishedVersions
    trainer: Trainer
    evaluator: Evaluator
    analyse: Callable[[], CanaryAnalysis]
    """Judges the canary by landed sessions and records the result."""
    open_sessions: Callable[[str], int]
    """Returns the number of sessions that still run on an engine."""
    report: Callable[[LearningEvent], None]
    now: Callable[[], datetime]
    clock: Callable[[], float] = monotonic
    """Seconds of a clock that never goes back."""


@dataclass(slots=True)
class ChangeReport:
    """Reports an event once while it does not change."""

    report: Callable[[LearningEvent], None]
    _last: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def __call__(self, kind: str, **fields: object) -> None:
        """Report, unless the last event was the same; `trainer` events are compared alone."""
        group = kind if kind == "trainer" else ""
        event = {"kind": kind, **fields}
        if self._last.get(group) != event:
            self._last[group] = event
            self.report(LearningEvent(kind=kind, fields=fields))
