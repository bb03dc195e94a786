"""The policy file: its format, and all checks that need no recognizer.

Unknown keys are errors, because a misspelt key would be a rule that has no effect without anybody
noticing. The content hash is that of the parsed document, so comments and spacing do not change it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, model_validator

from atdp.access import AccessPolicyDocument, UsePurpose
from atdp.governance.errors import PolicyError
from atdp.governance.learned.learnable import LEARNED_BY_DEFAULT
from atdp.governance.policy.consistency import PolicyRules, inconsistencies
from atdp.governance.policy.examples import PolicyExample
from atdp.governance.policy.policy_part import PolicyPart
from atdp.governance.policy.rule_packs import PackName, with_included_rules
from atdp.governance.policy.rules import (
    EntityName,
    EntityRule,
    FieldRule,
    KeyRule,
    LearnRule,
    NerRule,
    PatternRule,
    PolicyLimits,
    RewardTerms,
)
from atdp.runtime import DocumentError, YamlDocument, tenant_problem

Purpose: TypeAlias = UsePurpose
RetentionClass: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
RetentionDays: TypeAlias = Annotated[float, Field(gt=0, le=36_500)]

POLICY_ID: Final = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")
ANY_TENANT: Final = "*"
GRANTED: Final = "granted"
WITHDRAWN: Final = "withdrawn"


class PolicyMetadata(PolicyPart):
    """The identity of a policy. A changed file needs a new version."""

    id: Annotated[str, Field(pattern=POLICY_ID.pattern)]
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    owner: str = ""
    reason: str = ""


def _checked_tenant(name: str) -> str:
    if name != ANY_TENANT and (problem := tenant_problem(name)) is not None:
        raise ValueError(problem)
    return name


class AppliesTo(PolicyPart):
    """The tenants of the policy: names, or `*` for all tenants that no other policy names."""

    tenants: Annotated[list[Annotated[str, AfterValidator(_checked_tenant)]], Field(min_length=1)]


class ConsentTerms(PolicyPart):
    """Consent by purpose. Only the word `granted` grants; an unknown word does not."""

    train: str = "unknown"


TokenFidelity: TypeAlias = Literal["exact", "context_changed", "spliced", "dropped"]


class FidelityTerms(PolicyPart):
    """The worst token fidelity with which the events of model calls may be used, by purpose.

    `dropped` sets no limit. Training by RL needs token ids in any case.
    """

    train: TokenFidelity = "spliced"
    replay: TokenFidelity = "dropped"


class TenantTerms(PolicyPart):
    """The terms of one tenant, where they differ from the policy's own terms."""

    consent: ConsentTerms | None = None
    purposes: list[Purpose] | None = None


class PolicyDocument(PolicyPart):
    """One policy file of kind `GovernancePolicy`."""

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the spelling of the file format
    kind: Literal["GovernancePolicy"]
    metadata: PolicyMetadata
    applies_to: AppliesTo
    purposes: list[Purpose] = ["analytics"]
    """Uses that are allowed for the events; nothing else is until it stands here."""
    consent: ConsentTerms = ConsentTerms()
    min_fidelity: FidelityTerms = FidelityTerms()
    retention: dict[RetentionClass, RetentionDays] = {}
    """Days for which events may be used, by retention class; `default` is for events of a class
    that is not listed, and of none. Without an entry there is no limit."""
    tenants: dict[str, TenantTerms] = {}
    """Terms of single tenants, where they differ."""
    rewards: RewardTerms = RewardTerms()
    limits: PolicyLimits = PolicyLimits()
    learn: LearnRule = LearnRule()
    ner: NerRule | None = None
    phone_regions: list[str] = ["US", "GB"]
    """Countries (ISO 3166) whose national phone numbers are found."""
    include: list[PackName] = []
    """Rules of the package that are added to `patterns` and `keys`."""
    entities: Annotated[dict[EntityName, EntityRule], Field(min_length=1)]
    """The entities that are redacted, and how."""
    patterns: Annotated[list[PatternRule], Field(max_length=500)] = []
    keys: list[KeyRule] = []
    fields: Annotated[list[FieldRule], Field(min_length=1)]
    """The last must be the catch-all `{path: "**", do: scan}`."""
    tests: Annotated[list[PolicyExample], Field(max_length=500)] = []
    """Examples that the policy must treat as stated. A policy that does not cannot be activated."""
    evaluation: Annotated[str, Field(pattern=r"^[\w][\w.-]{0,99}$")] | None = None
    """File of labelled texts beside the policy, with which recall is measured."""
    min_recall: dict[EntityName, Annotated[float, Field(gt=0, le=1)]] = {}
    """Least share of the labelled letters and digits of an entity that must be found on the texts
    of `evaluation`, under whatever entity; ALL stands for all labels."""

    @model_validator(mode="before")
    @classmethod
    def _with_included_rules(cls, data: Any) -> Any:
        return with_included_rules(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if problems := [problem.message for problem in inconsistencies(self.rules)]:
            raise ValueError("; ".join(problems))
        if self.min_recall and self.evaluation is None:
            raise ValueError("min_recall needs evaluation, the file of labelled texts")
        return self

    @property
    def rules(self) -> PolicyRules:
        """The rules for checks."""
        return PolicyRules(
            entities=self.entities,
            declared=frozenset(self.entities),
            named=frozenset(
                [rule.entity for rule in self.patterns]
                + [rule.entity for rule in self.keys]
                + (self.ner.entities if self.ner is not None else [])
            ),
            patterns=dict(enumerate(self.patterns)),
            keys=dict(enumerate(self.keys)),
            fields=dict(enumerate(self.fields)),
            learn=self.learn,
            ner=self.ner,
        )

    @property
    def learned_entities(self) -> frozenset[str]:
        """The entities whose values are learned."""
        if self.learn.scope == "off":
            return frozenset()
        wanted = LEARNED_BY_DEFAULT if self.learn.entities is None else self.learn.entities
        return frozenset(wanted) & self.entities.keys()

    @property
    def content_hash(self) -> str:
        """The hex SHA-256 of the document as JSON with sorted keys and without spaces.

        Included rules are part of it. What equals its default is not, so a field that the format
        gets later does not change the hashes of policies without it.
        """
        return _content_hash(self)


def _content_hash(document: PolicyDocument) -> str:
    content = document.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


DOCUMENT_KINDS: Final[Mapping[str, type[BaseModel]]] = {
    "GovernancePolicy": PolicyDocument,
    "AccessPolicy": AccessPolicyDocument,
}
"""The kinds of policy files."""


def parse_policy(text: str, *, where: str) -> PolicyDocument | AccessPolicyDocument:
    """Return the document of a YAML text.

    Raises:
        PolicyError: the text is not YAML or not a policy. The message names `where`, and line and
            column of the wrong fields.
    """
    try:
        document = YamlDocument.parse(text, where=where)
        if not isinstance(document.value, dict):
            known = " or ".join(DOCUMENT_KINDS)
            raise DocumentError(f"{where}:1:1: kind: the document must be a {known}")
        if document.value.get("kind") == "AccessPolicy":
            return document.as_model(AccessPolicyDocument)
        return document.as_model(PolicyDocument)
    except DocumentError as error:
        raise PolicyError(f"not a usable policy: {error}") from error
