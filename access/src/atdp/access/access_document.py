"""Access policies: documents with Cedar rules for some tenants, and tests of these rules.

The rules are added to those of every home (`cedar/default.cedar`). A tenant's rule can forbid what
the default permits; it cannot allow what a guard refuses.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from atdp.access.access_decision import AccessDecision
from atdp.access.authorizer import Authorizer
from atdp.access.cedar_text import cedar_problems
from atdp.access.data_resource import NEVER_EXPIRES, DataResource, TenantData
from atdp.access.errors import AccessPolicyError
from atdp.access.guards import Resource
from atdp.access.policies.policy_entries import DocumentKind
from atdp.access.policies.policy_state import ActivePolicy
from atdp.access.rule_set import AccessRules
from atdp.runtime import ANY_TENANT, PLATFORM_ROLES, DocumentError, Principal, YamlDocument

ACCESS_POLICY: Final[DocumentKind] = "AccessPolicy"
_BLOCK: Final = re.compile(r"[|>][0-9+-]*\s*(#.*)?$")
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of all tests; `expires_at` in a test is compared with it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Metadata(_Strict):
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
    owner: str = ""
    reason: str = ""


class _AppliesTo(_Strict):
    tenants: Annotated[list[str], Field(min_length=1)]


class DataOfTest(_Strict):
    """The data of a test. Attributes that are left out are those of data without restrictions.

    A null makes an attribute unknown.
    """

    tenant: str | None = None
    """None: the tenant of the test's principal."""
    purposes: list[str] | None = ["analytics", "export", "replay", "train"]
    consent: str | None = "granted"
    classification: str | None = "unclassified"
    policy: str | None = "test@1"
    agent: str | None = "unknown"
    quarantined: bool | None = False
    token_fidelity: str | None = "exact"  # noqa: S105 - not a password
    expires_at: datetime | None = NEVER_EXPIRES


class AccessTest(_Strict):
    """A question and its expected answer."""

    principal: Annotated[str, Field(pattern=r"^[a-z]+:.+$")]
    """`role:tenant`, as `analyst:acme`."""
    action: str
    resource: Literal["tenant"] | DataOfTest = DataOfTest()
    """`tenant`: all data of the tenant, as SQL asks for it."""
    expect: Literal["allow", "deny"]


class AccessPolicyDocument(_Strict):
    """An access policy: who it is for, its rules in Cedar, and tests."""

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the name in the file
    kind: Literal["AccessPolicy"]
    metadata: _Metadata
    applies_to: _AppliesTo
    cedar: str
    tests: list[AccessTest] = []

    @property
    def id(self) -> str:
        """Id of the policy."""
        return self.metadata.id

    @property
    def version(self) -> int:
        """Version of the policy."""
        return self.metadata.version

    @property
    def tenants(self) -> Sequence[str]:
        """The tenants that it names; `*`: all that no other access policy names."""
        return self.applies_to.tenants

    @property
    def content_hash(self) -> str:
        """SHA-256 of the parsed document; comments and spacing of the YAML do not change it."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def rules(self) -> AccessRules:
        """The rules, for a `RuleSet`."""
        return AccessRules(name=f"{self.id}@{self.version}", text=self.cedar)


@dataclass(frozen=True, slots=True)
class AccessTestResult:
    """A test, the decision, and whether it is the expected one."""

    test: AccessTest
    decision: AccessDecision
    passed: bool


def parse_access_policy(text: str, *, where: str) -> AccessPolicyDocument:
    """Return the access policy of a YAML text whose rules are valid.

    Raises:
        AccessPolicyError: it is none; the message names the line of each problem.
    """
    problems, document = _read(text, where)
    if document is None or problems:
        raise AccessPolicyError("; ".join(problems))
    return document


def rules_for(tenant: str, active: Mapping[str, ActivePolicy]) -> tuple[AccessRules, ...]:
    """Return the rules of the access policies that hold for a tenant; `active` is by tenant.

    That is the policy for all tenants (`*`) and the tenant's own. A tenant cannot remove a rule of
    the operator by a policy of its own.

    Raises:
        AccessPolicyError: one is not valid.
    """
    policies = [each for name in (ANY_TENANT, tenant) if (each := active.get(name)) is not None]
    return tuple(_rules_of(policy.content.text, policy.name) for policy in policies)


@lru_cache(maxsize=1024)
def _rules_of(text: str, name: str) -> AccessRules:
    return parse_access_policy(text, where=name).rules


def check_access_policy(text: str, *, where: str = "policy") -> Sequence[str]:
    """Return what is wrong with a YAML text, as `<where>:<line>: …`, tests included; or nothing."""
    problems, document = _read(text, where)
    if document is None or problems:
        return problems
    return [
        f"{where}: test {index} ({each.test.principal}, {each.test.action}): expected "
        f"{each.test.expect}, but {'allowed' if each.decision.allowed else 'denied'}: "
        f"{each.decision.explanation}"
        for index, each in enumerate(run_access_tests(document), 1)
        if not each.passed
    ]


def run_access_tests(document: AccessPolicyDocument) -> Sequence[AccessTestResult]:
    """Return the results of a document's tests: its rules with those of every home."""
    authorizer = Authorizer(_OneDocument(document))
    results = []
    for test in document.tests:
        principal = named_principal(test.principal)
        decision = authorizer.authorize(principal, test.action, _tested(test, principal), _NOW)
        passed = decision.allowed == (test.expect == "allow")
        results.append(AccessTestResult(test, decision, passed))
    return results


def named_principal(text: str) -> Principal:
    """Return the principal that `role:tenant` stands for in questions and tests."""
    role, _, tenant = text.partition(":")
    return Principal(
        key_id="test", tenant=ANY_TENANT if role in PLATFORM_ROLES else tenant, role=role
    )


def _tested(test: AccessTest, principal: Principal) -> Resource:
    named = test.principal.partition(":")[2] if principal.tenant == ANY_TENANT else principal.tenant
    if not isinstance(test.resource, DataOfTest):
        return TenantData(tenant=named)
    data = test.resource
    return DataResource(
        tenant=data.tenant or named,
        trajectory_id="test",
        purposes=None if data.purposes is None else frozenset(data.purposes),
        consent=data.consent,
        classification=data.classification,
        policy=data.policy,
        agent=data.agent,
        quarantined=data.quarantined,
        token_fidelity=data.token_fidelity,
        expires_at=data.expires_at,
    )


class _OneDocument:
    def __init__(self, document: AccessPolicyDocument) -> None:
        self._rules = (document.rules,)

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:  # noqa: ARG002
        """Return the document's rules for every tenant, so that a test can name any."""
        return self._rules


def _read(text: str, where: str) -> tuple[list[str], AccessPolicyDocument | None]:
    try:
        parsed = YamlDocument.parse(text, where=where)
        document = parsed.as_model(AccessPolicyDocument)
    except DocumentError as error:
        return [str(error)], None
    line, _ = parsed.place_of(("cedar",))
    # A block begins on the line after `cedar: |`.
    before = line if _BLOCK.search(text.splitlines()[line - 1]) else line - 1
    problems = [
        f"{where}:{before + each.line}: cedar: {each.message}"
        for each in cedar_problems(document.cedar)
    ]
    return problems, document
