from .atif.reading import events_from_atif as events_from_atif
from .atif.writing import atif_from_events as atif_from_events
from .errors import AdapterError as AdapterError, ImportFailed as ImportFailed
from .importers.import_report import ImportReport as ImportReport
from .importers.imported_trajectory import (
    NO_TIME as NO_TIME,
    ImportedEvent as ImportedEvent,
    ImportedTrajectory as ImportedTrajectory,
    Importer as Importer,
    UnreadableEntry as UnreadableEntry,
    make_events as make_events,
)
from .importers.run import (
    IMPORTERS as IMPORTERS,
    EventRecorder as EventRecorder,
    ImportOptions as ImportOptions,
    run_import as run_import,
)
