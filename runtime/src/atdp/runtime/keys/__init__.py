"""API keys: each stands for a caller of one tenant in one role."""

from atdp.runtime.keys.api_key import ApiKey
from atdp.runtime.keys.principals import ANY_TENANT, PLATFORM_ROLES, Permission, Principal, Role
from atdp.runtime.keys.session_binding import SessionBinding
from atdp.runtime.keys.store import KeyStore
from atdp.runtime.keys.stored_key import StoredKey
from atdp.runtime.keys.tenants import UNKNOWN_TENANT, tenant_problem

__all__ = [
    "ANY_TENANT",
    "PLATFORM_ROLES",
    "UNKNOWN_TENANT",
    "ApiKey",
    "KeyStore",
    "Permission",
    "Principal",
    "Role",
    "SessionBinding",
    "StoredKey",
    "tenant_problem",
]
