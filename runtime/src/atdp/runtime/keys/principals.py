"""Roles with their permissions, and the principal that a verified key stands for.

An unknown role or permission is denied.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["agent", "analyst", "trainer", "steward", "operator"]
Permission = Literal[
    "emit",  # send events
    "generate",  # use the recording model proxy
    "query",  # SQL
    "read:analytics",
    "read:train",
    "read:replay",
    "govern",  # policies, consent, erasure
    "route",  # set the engines and their shares of the sessions
    "manage_keys",
]

_OF_ONE_TENANT: frozenset[str] = frozenset(get_args(Permission)) - {"route", "manage_keys"}
ROLE_PERMISSIONS: dict[str, frozenset[str]] = {
    "agent": frozenset({"emit", "generate"}),
    "analyst": frozenset({"query", "read:analytics"}),
    "trainer": frozenset({"read:train", "read:replay"}),
    "steward": _OF_ONE_TENANT,
    "operator": frozenset(get_args(Permission)),
}

ANY_TENANT = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller that a verified key stands for."""

    key_id: str
    tenant: str
    role: str
    session: str | None = None
    """JSON text of the session that a session key is bound to; None for every other key."""
    versions: str | None = None
    """JSON object of the versions (harness, prompt, tools) of the agent that uses the key."""
    parent: str | None = None
    """Id of the key that a session was opened with; None for every key but a session key."""

    def may(self, permission: str) -> bool:
        """Return whether the role has `permission`; False for an unknown role or permission."""
        return permission in ROLE_PERMISSIONS.get(self.role, frozenset())

    def may_act_for(self, tenant: str) -> bool:
        """Return whether the principal may send events and run queries for `tenant`."""
        if self.role == "operator":
            return self.tenant == ANY_TENANT
        return self.tenant == tenant and tenant != ANY_TENANT
