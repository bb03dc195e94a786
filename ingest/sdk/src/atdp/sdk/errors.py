"""Errors of the SDK.

Only construction raises: a wrong argument is a bug of the program that is being written and should
be seen at once. After construction nothing here reaches the host; what goes wrong is counted, shown
by `flush()` and logged once.
"""


class SdkError(Exception):
    """Base of everything that `atdp.sdk` raises."""


class ConfigurationError(SdkError):
    """A construction argument cannot work; the message says which one and what would."""


class SpoolError(SdkError):
    """The spool's files could not be used; the message names the path."""


class SpoolFullError(SpoolError):
    """The spool has reached its bound (or the disk has no room); the record was not taken."""
