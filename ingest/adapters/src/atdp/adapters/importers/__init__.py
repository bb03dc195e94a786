"""Importers: trajectories of other formats become events and take the same path as live ones."""

from atdp.adapters.imported_trajectory import (
    ImportedEvent,
    ImportedTrajectory,
    Importer,
    UnreadableEntry,
    make_events,
)
from atdp.adapters.importers.import_report import ImportReport
from atdp.adapters.importers.run import IMPORTERS, EventRecorder, ImportOptions, run_import

__all__ = [
    "IMPORTERS",
    "EventRecorder",
    "ImportOptions",
    "ImportReport",
    "ImportedEvent",
    "ImportedTrajectory",
    "Importer",
    "UnreadableEntry",
    "make_events",
    "run_import",
]
