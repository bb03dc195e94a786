"""Errors of the adapters."""


class AdapterError(Exception):
    """Base of every error that `atdp.adapters` raises."""


class ImportFailed(AdapterError):
    """An import cannot be started as asked; nothing was sent."""
