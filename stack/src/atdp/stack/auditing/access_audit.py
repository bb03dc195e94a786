"""Accesses to raw data: who asked to see raw or quarantined data of a tenant, and the decision.

The desks that show raw data write an entry to the register before they show anything. Callers with
the permission `audit` read the entries of their own tenant, an operator those of all.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from atdp.runtime import ANY_TENANT, Home, Principal, Register, RegisterEntry, open_register
from atdp.stack.errors import StackError

ACCESS_AUDIT: Final = "access_audit"
"""Kind of the entries."""
COLUMNS: Final = ("recorded_at", "tenant", "actor", "action", "resource", "decision", "policies")


class AccessAuditDenied(StackError):
    """The caller may not read the audit of accesses."""


@dataclass(frozen=True, slots=True)
class AccessAudit:
    """The audit of accesses of a home."""

    home: Home
    open_log: Callable[[Home], Register] = open_register

    def entries(self, caller: Principal, tenant: str | None = None) -> list[dict[str, Any]]:
        """Return the entries that the caller may see, oldest first.

        Raises:
            AccessAuditDenied: the caller may not audit, or names another tenant.
            RegisterUnavailable: the register cannot be read.
        """
        everything = caller.may_act_for(ANY_TENANT)
        visible = tenant if everything else caller.tenant
        if not caller.may("audit"):
            raise AccessAuditDenied(
                f"{caller.actor} may not read the audit of accesses; "
                "use the key of an auditor, a steward or the operator"
            )
        if not everything and (tenant not in (None, caller.tenant) or visible == ANY_TENANT):
            raise AccessAuditDenied(f"{caller.actor} belongs to another tenant than {tenant!r}")
        with closing(self.open_log(self.home)) as register:
            found = [entry for entry in register.read() if entry.kind == ACCESS_AUDIT]
        return [
            _row(entry) for entry in found if visible is None or entry.body.get("tenant") == visible
        ]


def _row(entry: RegisterEntry) -> dict[str, Any]:
    body: Mapping[str, Any] = entry.body
    known: dict[str, Any] = {
        **{name: body.get(name) for name in COLUMNS},
        "actor": entry.actor,
        "recorded_at": entry.recorded_at.isoformat(),
        "policies": list(body.get("policies") or ()),
    }
    return known
