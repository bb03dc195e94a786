"""Importers: recorded trajectories of other formats as events, through the same path as live ones."""

from atdp.adapters.importers.imported_trajectory import (
    NO_TIME,
    Entry,
    Failed,
    Importer,
    Trajectory,
    events,
)
from atdp.adapters.importers.run import IMPORTERS, EventRecorder, ImportReport, run_import

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
