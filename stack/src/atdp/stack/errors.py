"""Errors of the local stack and the command line."""


class StackError(Exception):
    """The local stack cannot start, stop or be read; the message says what to do next."""


class JavaUnsuitable(StackError):
    """No Java runtime that can run the broker."""


class JarsUnavailable(StackError):
    """The broker's jars are neither in the cache nor to be had from the Maven repository."""


class PortTaken(StackError):
    """A port that this home has used so far now belongs to another process."""


class BrokerFailed(StackError):
    """The broker ended or did not answer in time; the message holds the end of its log."""


class HomeUnusable(StackError):
    """The home folder cannot be written (permissions, disk full)."""


class AlreadyRunning(StackError):
    """A stack of this home is running already."""


class NotRunning(StackError):
    """No stack of this home is running."""
