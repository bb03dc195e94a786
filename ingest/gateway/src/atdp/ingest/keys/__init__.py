"""API keys: who is calling, for which tenant, in which role."""

from .api_key import ApiKey
from .principals import ANY_TENANT, Action, Principal, Role
from .store import KeyStore, StoredKey
from .tenants import UNKNOWN_TENANT, tenant_problem

__all__ = [
    "ANY_TENANT",
    "UNKNOWN_TENANT",
    "Action",
    "ApiKey",
    "KeyStore",
    "Principal",
    "Role",
    "StoredKey",
    "tenant_problem",
]
