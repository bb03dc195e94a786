"""Small policies as YAML, and callers, for the tests of the desk."""

from atdp.runtime import Principal

OPERATOR = Principal("operator", "*", "operator")
SECOND = Principal("second", "*", "operator")
STEWARD = Principal("ann", "acme", "steward")
COLLEAGUE = Principal("bob", "acme", "steward")
RIVAL = Principal("eve", "globex", "steward")
ANALYST = Principal("dan", "acme", "analyst")


def policy_yaml(
    version: int = 1,
    *,
    policy: str = "acme",
    tenants: str = "acme",
    operator: str = "surrogate",
    reason: str = "first rules",
    further: str = "",
) -> str:
    return f"""\
# Rules of our support team.
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {{id: {policy}, version: {version}, owner: privacy, reason: {reason}}}
applies_to: {{tenants: [{tenants}]}}
purposes: [analytics]
entities:
  EMAIL_ADDRESS: {{do: {operator}}}  # the form of an address stays
fields:
  - {{path: "**", do: scan}}
{further}"""
