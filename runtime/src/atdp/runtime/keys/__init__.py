"""API keys: who is calling, for which tenant, in which role."""

from atdp.runtime.keys.api_key import ApiKey
from atdp.runtime.keys.principals import ANY_TENANT, Action, Principal, Role
from atdp.runtime.keys.store import KeyStore, StoredKey
from atdp.runtime.keys.tenants import UNKNOWN_TENANT, tenant_problem

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
