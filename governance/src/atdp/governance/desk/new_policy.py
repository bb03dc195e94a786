"""The text of a new policy, made from a template for given tenants."""

import json
from collections.abc import Sequence

from atdp.governance.desk.policy_text import PolicyText
from atdp.governance.desk.yaml_edits import replace_values
from atdp.governance.errors import PolicyError
from atdp.governance.policy.templates import template_text
from atdp.runtime import ANY_TENANT, tenant_problem


def new_policy_text(policy_id: str, template: str, tenants: Sequence[str]) -> str:
    """Return version 1 of a policy for these tenants; `*` stands for all others.

    Raises:
        PolicyError: there is no such template, or the id or a tenant cannot have this name.
    """
    for tenant in tenants:
        if tenant != ANY_TENANT and (problem := tenant_problem(tenant)) is not None:
            raise PolicyError(problem)
    text = replace_values(
        template_text(template),
        {
            ("metadata", "id"): json.dumps(policy_id),
            ("metadata", "version"): "1",
            ("applies_to", "tenants"): json.dumps(list(tenants)),
        },
    )
    return PolicyText.parse(text, where=policy_id).text
