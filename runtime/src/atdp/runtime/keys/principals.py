"""Roles and what they may do; who a verified key stands for. Unknown role or action: denied."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["agent", "analyst", "trainer", "steward", "operator"]
Action = Literal[
    "emit",  # send events
    "generate",  # use the recording model proxy
    "query",  # SQL
    "read:analytics",
    "read:train",
    "read:replay",
    "govern",  # policies, consent, erasure
    "route",  # which engine serves which sessions
    "manage_keys",
]

_EVERYTHING_OF_A_TENANT: frozenset[str] = frozenset(get_args(Action)) - {"route", "manage_keys"}
MAY: dict[str, frozenset[str]] = {
    "agent": frozenset({"emit", "generate"}),
    "analyst": frozenset({"query", "read:analytics"}),
    "trainer": frozenset({"read:train", "read:replay"}),
    "steward": _EVERYTHING_OF_A_TENANT,
    "operator": frozenset(get_args(Action)),
}

ANY_TENANT = "*"


@dataclass(frozen=True)
class Principal:
    """Who a verified key stands for."""

    key_id: str
    tenant: str
    role: str
    session: str | None = None
    """JSON text, for a session key: the session that it is bound to (see `atdp.gateway.sessions`).
    """

    def may(self, action: str) -> bool:
        """Whether the role allows `action`; unknown role or action → False."""
        return action in MAY.get(self.role, frozenset())

    def may_act_for(self, tenant: str) -> bool:
        """Whether events or questions of `tenant` are this principal's business."""
        if self.role == "operator":
            return self.tenant == ANY_TENANT
        return self.tenant == tenant and tenant != ANY_TENANT
