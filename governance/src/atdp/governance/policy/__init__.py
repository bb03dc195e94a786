"""Policies: one YAML file per set of tenants; parsed, validated, compiled."""

from atdp.governance.policy.compiled import CompiledPolicy, compile_policy
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.governance.policy.store import PolicyStore, install_default_policy, set_consent

__all__ = [
    "CompiledPolicy",
    "PolicyDocument",
    "PolicyStore",
    "compile_policy",
    "install_default_policy",
    "parse_policy",
    "set_consent",
]
