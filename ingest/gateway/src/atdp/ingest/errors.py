"""Errors of the ingest part. Three fates are three types: retry later, set aside, stop."""


class IngestError(Exception):
    """Base of every error that `atdp.ingest` raises.

    The message says what happened, on what, what to do next.
    """


class SettingsError(IngestError):
    """A setting is missing or wrong; nothing was started."""


class KeyStoreError(IngestError):
    """The key store refused an operation (bad tenant name, unknown role, unreadable file)."""


class EventLogUnavailable(IngestError):
    """The event log did not acknowledge in time; the caller may retry, with the redelivery flag set."""


class EventRejected(IngestError):
    """The event log will never take this record (too large, for example); retrying is useless."""


class ImportFailed(IngestError):
    """A file or row of an import cannot be read; the rest of the import goes on."""
