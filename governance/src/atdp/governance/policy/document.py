"""The policy file: its format, and all checks that need no recognizer.

Unknown keys are errors, because a misspelt key would be a rule that has no effect without anybody
noticing. The content hash is that of the parsed document, so comments and spacing do not change it.
"""

import hashlib
import json
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from atdp.governance.detect.named_values import PERSON
from atdp.governance.errors import PolicyError
from atdp.governance.learned.learnable import LEARNED_BY_DEFAULT
from atdp.governance.redact.operators import OperatorName, PseudonymScope
from atdp.runtime import DocumentError, YamlDocument

Purpose: TypeAlias = Literal["train", "replay", "analytics"]
EntityName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,39}$")]

CATCH_ALL: Final = "**"
ANY_TENANT: Final = "*"
GRANTED: Final = "granted"
WITHDRAWN: Final = "withdrawn"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PolicyMetadata(_Strict):
    """The identity of a policy. A changed file needs a new version."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    owner: str = ""
    reason: str = ""


class AppliesTo(_Strict):
    """The tenants of the policy: names, or `*` for all tenants that no other policy names."""

    tenants: Annotated[list[str], Field(min_length=1)]


class ConsentTerms(_Strict):
    """Consent by purpose. Only the word `granted` grants; an unknown word does not."""

    train: str = "unknown"


TokenFidelity: TypeAlias = Literal["exact", "context_changed", "spliced", "dropped"]


class FidelityTerms(_Strict):
    """The worst token fidelity with which the events of model calls may be used, by purpose.

    `dropped` sets no limit. Training by RL needs token ids in any case.
    """

    train: TokenFidelity = "spliced"
    replay: TokenFidelity = "dropped"


class TenantTerms(_Strict):
    """The terms of one tenant, where they differ from the policy's own terms."""

    consent: ConsentTerms | None = None
    purposes: list[Purpose] | None = None


class EntityRule(_Strict):
    """The redaction of one entity."""

    do: OperatorName
    min_score: Annotated[float, Field(gt=0, le=1)] = 0.5
    scope: PseudonymScope = "tenant"
    keep_last: Annotated[int, Field(ge=0, le=8)] = 0
    text: str | None = None
    context: list[str] | None = None
    """Words in place of the recognizer's own context words."""
    bare_digits: Literal["find", "in_context"] = "find"
    """`in_context`: digits without punctuation count only near a context word."""
    numbers: Literal["find", "in_context"] = "in_context"
    """`find`: a number (of JSON, or of a numeric field) counts by its form alone."""


class PatternRule(_Strict):
    """A pattern that the policy defines (syntax of the `regex` module)."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    entity: EntityName
    pattern: Annotated[str, Field(min_length=1, max_length=4000)]
    group: int | str = 0
    ignore_case: bool = False
    verbose: bool = False
    """White space in the pattern is layout and matches nothing."""
    score: Annotated[float, Field(gt=0, le=1)] = 0.85
    context: list[str] = []


class KeyRule(_Strict):
    """Values of JSON keys with these names are this entity, whatever they look like.

    Case and punctuation of names are ignored. `names` are the last words of a key, `whole` names
    all its words, `anywhere` names any of its words. A key that ends with a name of `unless` has no
    entity. `roles` are the last words of keys that say who a person is (`passenger`): values under
    them are read by the model of `ner`, which tells names of persons from other values.
    """

    entity: EntityName
    names: list[str] = []
    whole: list[str] = []
    anywhere: list[str] = []
    roles: list[str] = []
    unless: list[str] = []

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        if not (self.names or self.whole or self.anywhere or self.roles):
            raise ValueError(f"the key rule of {self.entity} has no names")
        if self.roles and self.entity != PERSON:
            raise ValueError(
                f"the key rule of {self.entity} has roles, which are those of {PERSON}"
            )
        return self


class FieldRule(_Strict):
    """The treatment of a field of the event and of everything inside it.

    The first rule that matches decides. `path` is a glob such as `metadata_json`,
    `observation.messages` or `usage.*`.
    """

    path: Annotated[str, Field(min_length=1)]
    do: Literal["scan", "drop_field"]


class LearnRule(_Strict):
    """The values that are learned from a trajectory and found everywhere else in it.

    `entities`: None stands for those of persons and accounts (`LEARNED_BY_DEFAULT`), as far as the
    policy declares them. `scope`: what is learned holds for its trajectory, or for all later
    events of the tenant.
    """

    entities: list[EntityName] | None = None
    scope: Literal["trajectory", "tenant", "off"] = "trajectory"


class NerRule(_Strict):
    """A trained model that finds names, places and organisations in prose.

    `model`: `atdp:names`, `spacy:PACKAGE_OR_PATH` or `transformers:PATH`. `entities`: those of its
    findings that count, from their `min_score` on.
    """

    model: Annotated[str, Field(pattern=r"^[a-z]+:.+$")] = "atdp:names"
    entities: Annotated[list[EntityName], Field(min_length=1)]


class PolicyLimits(_Strict):
    """Limits; an event beyond them is quarantined."""

    leaf_chars: Annotated[int, Field(ge=1_000, le=4_000_000)] = 400_000
    json_depth: Annotated[int, Field(ge=1, le=32)] = 8
    pattern_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0


class PolicyDocument(_Strict):
    """One policy file of kind `GovernancePolicy`."""

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the spelling of the file format
    kind: Literal["GovernancePolicy"]
    metadata: PolicyMetadata
    applies_to: AppliesTo
    purposes: list[Purpose] = ["train", "replay", "analytics"]
    consent: ConsentTerms = ConsentTerms()
    min_fidelity: FidelityTerms = FidelityTerms()
    tenants: dict[str, TenantTerms] = {}
    limits: PolicyLimits = PolicyLimits()
    learn: LearnRule = LearnRule()
    ner: NerRule | None = None
    phone_regions: list[str] = ["US", "GB"]
    entities: Annotated[dict[EntityName, EntityRule], Field(min_length=1)]
    patterns: list[PatternRule] = []
    keys: list[KeyRule] = []
    fields: Annotated[list[FieldRule], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        last = self.fields[-1]
        if last.path != CATCH_ALL or last.do != "scan":
            raise ValueError(
                f'the last of fields must be the catch-all {{path: "{CATCH_ALL}", do: scan}}'
            )
        named = {rule.entity for rule in self.patterns} | {rule.entity for rule in self.keys}
        named.update(self.learn.entities or ())
        named.update(self.ner.entities if self.ner is not None else ())
        if undeclared := named - self.entities.keys():
            raise ValueError(
                "patterns, keys, learn or ner name entities that entities does not declare: "
                f"{sorted(undeclared)}"
            )
        if any(rule.roles for rule in self.keys) and (
            self.ner is None or PERSON not in self.ner.entities
        ):
            raise ValueError(f"keys with roles need ner with the entity {PERSON}")
        if len({rule.id for rule in self.patterns}) != len(self.patterns):
            raise ValueError("two patterns have the same id")
        for name, rule in self.entities.items():
            _check_operator_settings(name, rule)
        return self

    @property
    def learned_entities(self) -> frozenset[str]:
        """The entities whose values are learned."""
        if self.learn.scope == "off":
            return frozenset()
        wanted = LEARNED_BY_DEFAULT if self.learn.entities is None else self.learn.entities
        return frozenset(wanted) & self.entities.keys()

    @property
    def content_hash(self) -> str:
        """The hex SHA-256 of the document as JSON with sorted keys and without spaces."""
        # Not `canonical_sha256`: that one writes letters beyond ASCII as they are. Stamps and audit
        # records that exist hold hashes of the escaped form.
        document = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(document.encode()).hexdigest()


def _check_operator_settings(name: str, rule: EntityRule) -> None:
    if rule.text is not None and rule.do != "replace":
        raise ValueError(f"{name}: text belongs to the operator replace, not {rule.do}")
    if rule.keep_last and rule.do != "mask":
        raise ValueError(f"{name}: keep_last belongs to the operator mask, not {rule.do}")


class ConsentDocument(_Strict):
    """A file of kind `Consent`: terms of tenants, apart from redaction rules.

    So a tenant can opt out without a new policy version.
    """

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the spelling of the file format
    kind: Literal["Consent"]
    tenants: dict[str, TenantTerms]


def parse_policy(text: str, *, where: str) -> PolicyDocument | ConsentDocument:
    """Return the document of a YAML text.

    Raises:
        PolicyError: the text is not YAML or not a policy. The message names `where`, and line and
            column of the wrong fields.
    """
    try:
        document = YamlDocument.parse(text, where=where)
        kind = document.value.get("kind") if isinstance(document.value, dict) else None
        if kind == "Consent":
            return document.as_model(ConsentDocument)
        return document.as_model(PolicyDocument)
    except DocumentError as error:
        raise PolicyError(f"not a usable policy: {error}") from error
