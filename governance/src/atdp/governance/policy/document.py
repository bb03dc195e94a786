"""The policy file: its shape, and what can be said about it without loading a recognizer.

Unknown keys are errors, since a misspelt key would be a rule that silently does not hold. The
content hash is that of the parsed document, so that comments and spacing do not make another
policy.
"""

import hashlib
import json
from typing import Annotated, Any, Literal, Self, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from atdp.governance.errors import PolicyError
from atdp.governance.redact.operators import OperatorName, Scope

Purpose: TypeAlias = Literal["train", "replay", "analytics"]
EntityName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,39}$")]

CATCH_ALL = "**"
ANY_TENANT = "*"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metadata(_Strict):
    """Which policy this is. A changed file needs a new version."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    owner: str = ""
    reason: str = ""


class AppliesTo(_Strict):
    """For which tenants: names, or `*` for all that no other policy names."""

    tenants: Annotated[list[str], Field(min_length=1)]


class ConsentTerms(_Strict):
    """Consent by purpose. Only the word `granted` grants; a word nobody knows does not."""

    train: str = "unknown"


class TenantTerms(_Strict):
    """What one tenant allows, where it differs from the policy's own terms."""

    consent: ConsentTerms | None = None
    purposes: list[Purpose] | None = None


class EntityRule(_Strict):
    """What to do with one entity."""

    do: OperatorName
    min_score: Annotated[float, Field(gt=0, le=1)] = 0.5
    scope: Scope = "tenant"
    keep_last: Annotated[int, Field(ge=0, le=8)] = 0
    text: str | None = None
    context: list[str] | None = None
    """Words in place of the recognizer's own context words."""
    bare_digits: Literal["find", "in_context"] = "find"
    """`in_context`: digits without any punctuation count only beside a context word."""


class PatternRule(_Strict):
    """A pattern of the policy's own (syntax of the `regex` module)."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    entity: EntityName
    pattern: Annotated[str, Field(min_length=1, max_length=4000)]
    group: int | str = 0
    ignore_case: bool = False
    verbose: bool = False
    """White space in the pattern is layout, not text."""
    score: Annotated[float, Field(gt=0, le=1)] = 0.85
    context: list[str] = []


class KeyRule(_Strict):
    """Values of JSON keys of these names are this entity, whatever they look like.

    Case and punctuation of names are ignored.
    """

    entity: EntityName
    names: Annotated[list[str], Field(min_length=1)]


class FieldRule(_Strict):
    """What happens at a field of the event and at all that it holds; the first rule that fits decides.

    `path` is a glob such as `metadata_json`, `observation.messages` or `usage.*`.
    """

    path: Annotated[str, Field(min_length=1)]
    do: Literal["scan", "drop_field"]


class Limits(_Strict):
    """Beyond these an event is quarantined."""

    leaf_chars: Annotated[int, Field(ge=1_000, le=4_000_000)] = 400_000
    json_depth: Annotated[int, Field(ge=1, le=32)] = 8
    pattern_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0


class PolicyDocument(_Strict):
    """One policy file of kind `GovernancePolicy`."""

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the spelling of the file format
    kind: Literal["GovernancePolicy"]
    metadata: Metadata
    applies_to: AppliesTo
    purposes: list[Purpose] = ["train", "replay", "analytics"]
    consent: ConsentTerms = ConsentTerms()
    tenants: dict[str, TenantTerms] = {}
    limits: Limits = Limits()
    phone_regions: list[str] = ["US", "GB"]
    entities: Annotated[dict[EntityName, EntityRule], Field(min_length=1)]
    patterns: list[PatternRule] = []
    keys: list[KeyRule] = []
    fields: Annotated[list[FieldRule], Field(min_length=1)]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        last = self.fields[-1]
        if last.path != CATCH_ALL or last.do != "scan":
            raise ValueError(
                f'the last of fields must be the catch-all {{path: "{CATCH_ALL}", do: scan}}'
            )
        named = [rule.entity for rule in self.patterns] + [rule.entity for rule in self.keys]
        undeclared = set(named) - self.entities.keys()
        if undeclared:
            raise ValueError(
                f"patterns or keys name entities that entities does not declare: {sorted(undeclared)}"
            )
        names = [rule.id for rule in self.patterns]
        if len(set(names)) != len(names):
            raise ValueError("two patterns have the same id")
        for name, rule in self.entities.items():
            if rule.text is not None and rule.do != "replace":
                raise ValueError(f"{name}: text belongs to the operator replace, not {rule.do}")
            if rule.keep_last and rule.do != "mask":
                raise ValueError(f"{name}: keep_last belongs to the operator mask, not {rule.do}")
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the document."""
        document = self.model_dump(mode="json")
        return hashlib.sha256(
            json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()


class ConsentDocument(_Strict):
    """A file of kind `Consent`: tenants' terms apart from redaction rules, so that opting out needs no new policy version."""

    apiVersion: Literal["atdp.governance/v1"]  # noqa: N815 - the spelling of the file format
    kind: Literal["Consent"]
    tenants: dict[str, TenantTerms]


def parse_policy(text: str, *, where: str) -> PolicyDocument | ConsentDocument:
    """The document of a YAML text.

    Raises:
        PolicyError: not YAML, or not a policy; the message names `where` and the fields that are
            wrong.
    """
    try:
        loaded: Any = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader that also refuses repeated keys
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise PolicyError(
            f"{where} is not valid YAML{place}: {getattr(error, 'problem', error)}"
        ) from error
    kind = loaded.get("kind") if isinstance(loaded, dict) else None
    model = ConsentDocument if kind == "Consent" else PolicyDocument
    try:
        return model.model_validate(loaded)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'document'}: {problem['msg']}"
            for problem in error.errors()[:5]
        )
        raise PolicyError(f"{where} is not a usable policy: {problems}") from error


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping with the same key twice; plain YAML loaders keep the last one and drop the first rule silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As in the base class, after looking for repeated keys."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
