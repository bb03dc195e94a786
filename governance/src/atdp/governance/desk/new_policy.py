"""The text of a new policy, made from a template for given tenants."""

import json
from collections.abc import Sequence

from atdp.governance.desk.policy_text import PolicyText
from atdp.governance.desk.yaml_edits import replace_values
from atdp.governance.errors import PolicyError
from atdp.governance.policy.document import POLICY_ID
from atdp.governance.policy.templates import template_text
from atdp.runtime import ANY_TENANT, tenant_problem


def new_policy_text(
    policy_id: str,
    template: str,
    tenants: Sequence[str],
    *,
    purposes: Sequence[str] = (),
    consent: bool = False,
) -> str:
    """Return version 1 of a policy for these tenants; `*` stands for all others.

    `purposes` take the place of the template's; without any, those stay. With `consent`, the
    policy states that consent to training is granted.

    Raises:
        PolicyError: there is no such template, or the id, a tenant or a purpose cannot have this
            name.
    """
    if POLICY_ID.fullmatch(policy_id) is None:
        raise PolicyError(
            f"{policy_id!r} is no id of a policy: it may hold small letters, digits, '.', '_' and "
            "'-', begins with a letter or digit, and has at most 63 characters"
        )
    for tenant in tenants:
        if tenant != ANY_TENANT and (problem := tenant_problem(tenant)) is not None:
            raise PolicyError(problem)
    values: dict[tuple[str, ...], str] = {
        ("metadata", "id"): json.dumps(policy_id),
        ("metadata", "version"): "1",
        ("applies_to", "tenants"): json.dumps(list(tenants)),
    }
    if purposes:
        values["purposes",] = f"[{', '.join(purposes)}]"
    if consent:
        values["consent", "train"] = "granted"
    text = replace_values(template_text(template), values)
    return PolicyText.parse(text, where=policy_id).text
