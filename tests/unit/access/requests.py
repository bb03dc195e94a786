"""Principals and data of tests about permissions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from atdp.access import NEVER_EXPIRES, AccessRules, DataResource
from atdp.runtime import ANY_TENANT, Principal

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
PURPOSES = frozenset({"analytics", "replay", "train", "export"})


def principal(role: str, tenant: str = "acme", **more: Any) -> Principal:
    tenant = ANY_TENANT if role in {"operator", "recorder"} else tenant
    return Principal(key_id="0123456789ab", tenant=tenant, role=role, **more)


def data(**changed: Any) -> DataResource:
    known: dict[str, Any] = {
        "tenant": "acme",
        "trajectory_id": "t-1",
        "purposes": PURPOSES,
        "consent": "granted",
        "classification": "unclassified",
        "policy": "acme@3",
        "agent": "support",
        "quarantined": False,
        "token_fidelity": "exact",
        "expires_at": NEVER_EXPIRES,
    }
    return DataResource(**(known | changed))


class FixedPolicies:
    """Gives the same rules to every tenant."""

    def __init__(self, *texts: str) -> None:
        self.rules = [AccessRules(name=f"test@{at}", text=text) for at, text in enumerate(texts, 1)]

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:
        return self.rules
