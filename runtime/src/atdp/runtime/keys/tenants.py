"""Tenant names: one rule for keys and for every place where a tenant is named."""

import re

# No slash: tenant ids are the first part of a Kafka key and of a partition path.
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Characters of a refused name that a message shows.
_SHOWN = 80

UNKNOWN_TENANT = "unknown"
"""The tenant of records that governance could not assign to any tenant.

No real tenant may have this name: its keys could read those records.
"""


def tenant_problem(name: str) -> str | None:
    """Return the reason why a tenant cannot have this name; None when it can."""
    if name == UNKNOWN_TENANT:
        return (
            f"{name!r} cannot be a tenant name: it stands for records of no known tenant; "
            "choose another"
        )
    if not _TENANT.fullmatch(name):
        shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        return (
            f"{shown!r} cannot be a tenant name: use 1 to 63 letters, digits, '.', '_' or '-', "
            "the first one a letter or digit"
        )
    return None
