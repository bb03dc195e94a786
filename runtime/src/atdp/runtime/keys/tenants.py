"""Tenant names: one rule for keys and for whatever an operator names."""

import re

# No slash: tenant ids are the first part of a Kafka key and of a partition path.
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

UNKNOWN_TENANT = "unknown"
"""Where governance files records that it could not assign to any tenant; nobody's name, else its
owner would read them."""


def tenant_problem(name: str) -> str | None:
    """Why `name` cannot be a tenant's; None when it can."""
    if name == UNKNOWN_TENANT:
        return f"{name!r} cannot be a tenant name: it stands for records of no known tenant; choose another"
    if not _TENANT.fullmatch(name):
        shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        return (
            f"{shown!r} cannot be a tenant name: use 1 to 63 letters, digits, '.', '_' or '-', "
            "the first one a letter or digit"
        )
    return None


_SHOWN = 80
