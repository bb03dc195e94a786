"""Events about a trajectory that arrive long after it.

A reward may arrive weeks after the last event of its trajectory, when governance knows nothing of
that trajectory any more. Any other event begins a new state then, so that readers refuse the
trajectory: the event may show what was learned and forgotten. A judgement or an end without a text
of its own can show nothing, and leaves the trajectory usable.
"""

from datetime import datetime, timedelta
from typing import Final

LEARNED_RETENTION: Final = timedelta(days=7)
"""Time without events after which the state of a trajectory is deleted. It is that of the raw
topic: what is no longer there cannot be governed again."""

LATE_KINDS: Final = frozenset({"reward", "feedback", "annotation", "trajectory_ended"})
"""Kinds of events that begin no state, unless they hold a text."""

NAMES_OF_PROGRAMS: Final = frozenset({"reward.source_name", "reward.label", "annotation.name"})
"""Fields in which a program names itself, its scale or its result; they count as no text."""


def may_be_copy(
    *, redelivered: bool, seq: int, occurred_at: datetime | None, now: datetime
) -> bool:
    """Return True when an event may have been governed before its trajectory's state was deleted.

    Readers keep the first form of an event, so a copy must not stand for the beginning of a state.
    The first event of a producer may: who sends it again sends all that follow it again, too, so
    that all of it is learned again. An import marks each event as one that may have been sent.
    """
    old = occurred_at is None or now - occurred_at > LEARNED_RETENTION
    return redelivered and seq > 0 and old
