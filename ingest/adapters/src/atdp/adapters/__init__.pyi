from .errors import AdapterError as AdapterError, ImportFailed as ImportFailed
from .importers.run import ImportReport as ImportReport, run_import as run_import
