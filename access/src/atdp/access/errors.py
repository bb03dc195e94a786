"""Errors of sign-in and permissions."""


class AccessError(Exception):
    """Base of every error that `atdp.access` raises.

    The message says what happened, on what, and what to do next.
    """


class ConsentError(AccessError):
    """A decision about consent is not one that the rules understand."""


class RulesUnavailable(AccessError):
    """The rules about the use of data cannot be read, so no data may be used."""


class AccessPolicyError(AccessError):
    """An access policy is not valid; the message names line and problem."""
