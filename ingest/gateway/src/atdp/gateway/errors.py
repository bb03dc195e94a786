"""Errors of the gateway. Three fates are three types: retry later, set aside, stop."""


class GatewayError(Exception):
    """Base of every error that `atdp.gateway` raises."""


class EventLogUnavailable(GatewayError):
    """The event log did not acknowledge in time; the caller may retry, with the redelivery flag."""


class EventRejected(GatewayError):
    """The event log will never take this record (too large, for example); retrying is useless."""


class SessionStoreError(GatewayError):
    """The session store cannot be opened; the gateway does not start."""
