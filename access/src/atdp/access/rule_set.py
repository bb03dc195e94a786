"""The rules that decide for one tenant: those of every home and those of its access policies.

Everything that can go wrong in evaluating Cedar denies. The engine itself does not do that: it
skips a rule that fails, so that a `forbid` that names a missing attribute would allow. Here the
rules, the entities and the request are checked against the schema, and any error denies.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy

from atdp.access.access_decision import AccessDecision
from atdp.access.cedar_text import cedar_problems, cedar_schema, default_rules, rule_names
from atdp.access.data_resource import DataResource, TenantData
from atdp.access.errors import AccessPolicyError
from atdp.access.guards import Resource
from atdp.runtime import Principal

_DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRules:
    """The Cedar text of one access policy."""

    name: str
    """`id@version`."""
    text: str


class RuleSet:
    """Compiled rules; immutable."""

    def __init__(self, rules: Sequence[AccessRules] = ()) -> None:
        """Compile the rules beside those of every home.

        Raises:
            AccessPolicyError: a text is not valid.
        """
        texts = [AccessRules(name=_DEFAULT, text=default_rules()), *rules]
        self._names: dict[str, str] = {}
        for each in texts:
            if problems := cedar_problems(each.text):
                raise AccessPolicyError(
                    f"{each.name}: line {problems[0].line}: {problems[0].message}"
                )
            for name in rule_names(each.text):
                self._names[f"policy{len(self._names)}"] = f"{each.name}/{name}"
        whole = "\n".join(each.text for each in texts)
        self._policies = cedarpy.PolicySet.from_str(whole)
        content = json.dumps([(each.name, each.text) for each in texts])
        self.hash = hashlib.sha256(content.encode()).hexdigest()
        """SHA-256 of names and texts, hexadecimal."""

    def decide(self, principal: Principal, action: str, resource: Resource) -> AccessDecision:
        """Return what the rules say; the guards must have been asked before.

        For `TenantData`, the action must be allowed whatever the attributes of a trajectory are.
        """
        try:
            if isinstance(resource, TenantData):
                return self._decide_for_all(principal, action)
            return self._decide_for_one(principal, action, resource)
        except Exception as error:  # noqa: BLE001 - whatever happens in the engine must deny
            return AccessDecision(
                allowed=False, reason="policy_error", errors=(f"{type(error).__name__}: {error}",)
            )

    def _decide_for_one(
        self, principal: Principal, action: str, resource: DataResource
    ) -> AccessDecision:
        entities = [*_principal_entities(principal), _data_entity(resource)]
        result = cedarpy.is_authorized(
            {
                "principal": {"type": "Principal", "id": principal.actor},
                "action": {"type": "Action", "id": action},
                "resource": {"type": "Data", "id": resource.tenant},
                "context": {},
            },
            self._policies,
            cedarpy.Entities.from_json_str(json.dumps(entities), cedar_schema()),
            cedar_schema(),
        )
        found = result.diagnostics
        return self._decision(result.decision, found.reasons, found.errors)

    def _decide_for_all(self, principal: Principal, action: str) -> AccessDecision:
        """Decide without a resource: a rule that depends on its attributes gives no decision."""
        result = cedarpy.is_authorized_partial(
            {
                "principal": f"Principal::{json.dumps(principal.actor, ensure_ascii=False)}",
                "action": f"Action::{json.dumps(action)}",
                "context": {},
            },
            self._policies,
            cedarpy.Entities.from_json_str(
                json.dumps(_principal_entities(principal)), cedar_schema()
            ),
            cedar_schema(),
        )
        found = result.diagnostics
        if result.decision == cedarpy.Decision.NoDecision and not found.errors:
            open_rules = [each for each in found.may_be_determining if each not in found.reasons]
            return AccessDecision(
                allowed=False,
                reason="depends_on_trajectory",
                policies=self._named(open_rules),
                errors=("these rules decide by attributes of single trajectories",),
            )
        return self._decision(result.decision, found.must_be_determining, found.errors)

    def _decision(
        self, decision: cedarpy.Decision, reasons: Sequence[str], errors: Sequence[str]
    ) -> AccessDecision:
        policies = self._named(reasons)
        if errors or decision == cedarpy.Decision.NoDecision:
            return AccessDecision(
                allowed=False, reason="policy_error", policies=policies, errors=tuple(errors)
            )
        if decision == cedarpy.Decision.Allow:
            return AccessDecision(allowed=True, reason="allowed", policies=policies)
        reason = "policy_forbids" if policies else "no_policy_permits"
        return AccessDecision(allowed=False, reason=reason, policies=policies)

    def _named(self, ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(self._names.get(each, each) for each in ids))


def _principal_entities(principal: Principal) -> list[Mapping[str, Any]]:
    return [
        {
            "uid": {"type": "Principal", "id": principal.actor},
            "attrs": {
                "tenant": principal.tenant,
                "kind": "key" if principal.issuer is None else "token",
            },
            "parents": [{"type": "Role", "id": role} for role in principal.roles],
        }
    ]


def _data_entity(resource: DataResource) -> Mapping[str, Any]:
    return {
        "uid": {"type": "Data", "id": resource.tenant},
        "attrs": {
            "tenant": resource.tenant,
            "purposes": sorted(resource.purposes or ()),
            "consent": resource.consent,
            "classification": resource.classification,
            "policy": resource.policy,
            "agent": resource.agent,
            "token_fidelity": resource.token_fidelity,
        },
        "parents": [],
    }
