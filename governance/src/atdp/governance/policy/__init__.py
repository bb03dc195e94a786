"""Policies: one YAML file per set of tenants; parsed, validated, compiled."""

from atdp.governance.policy.compiled import CompiledPolicy, compile_policy
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.policy.document import PolicyDocument, parse_policy

__all__ = [
    "CompiledPolicy",
    "PolicyDocument",
    "compile_policy",
    "default_policy_text",
    "parse_policy",
]
