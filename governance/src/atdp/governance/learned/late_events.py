"""Events about a trajectory that arrive long after it.

A reward may arrive weeks after the last event of its trajectory, when governance knows nothing of
that trajectory any more. Any other event begins a new state then, so that readers refuse the
trajectory: the event may show what was learned and forgotten. A judgement or an end without a text
of its own can show nothing, and leaves the trajectory usable.
"""

from typing import Final

LATE_KINDS: Final = frozenset({"reward", "feedback", "annotation", "trajectory_ended"})
"""Kinds of events that begin no state, unless they hold a text."""

NAMES_OF_PROGRAMS: Final = frozenset({"reward.source_name", "reward.label", "annotation.name"})
"""Fields in which a program names itself, its scale or its result; they count as no text."""
