"""API keys: who is calling, for which tenant, in which role."""

from .api_key import ApiKey
from .principals import ANY_TENANT, Action, Principal, Role
from .store import KeyStore, StoredKey

__all__ = ["ANY_TENANT", "Action", "ApiKey", "KeyStore", "Principal", "Role", "StoredKey"]
