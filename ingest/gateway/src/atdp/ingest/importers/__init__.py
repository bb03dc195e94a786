"""Importers: recorded trajectories of other formats as events, through the same path as live ones."""

from .run import IMPORTERS, EventRecorder, ImportReport, run_import
from .trajectory import NO_TIME, Entry, Failed, Importer, Trajectory, events

__all__ = [
    "IMPORTERS",
    "NO_TIME",
    "Entry",
    "EventRecorder",
    "Failed",
    "ImportReport",
    "Importer",
    "Trajectory",
    "events",
    "run_import",
]
