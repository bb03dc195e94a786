"""The rules of a policy file: entities, patterns, keys, fields, and what is learned or modelled."""

from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from atdp.governance.detect.custom_pattern import (
    PatternDefinition,
    PatternSyntax,
    compiled_pattern,
)
from atdp.governance.detect.named_values import PERSON
from atdp.governance.errors import PolicyError
from atdp.governance.policy.policy_part import PolicyPart
from atdp.governance.redact.operators import OperatorName, PseudonymScope

EntityName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,39}$")]

CATCH_ALL: Final = "**"

DEFAULT_REWARD_RANGE: Final = (-1000.0, 1000.0)
"""Lowest and highest value of a reward where the policy states no range. One far outlier decides
what a group of attempts teaches, and sums of such values are not finite."""


class EntityRule(PolicyPart):
    """The redaction of one entity."""

    do: OperatorName
    """The operator, which replaces a value: docs/reference/operators.md."""
    min_score: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Findings of a lower score do not count."""
    scope: PseudonymScope = "tenant"
    """Within it a value always gets the same surrogate or pseudonym."""
    keep_last: Annotated[int, Field(ge=0, le=8)] = 0
    """Letters and digits that `mask` keeps."""
    text: str | None = None
    """The text that `replace` writes; by default the entity, for example `<SECRET>`."""
    context: list[str] | None = None
    """Words in place of the recognizer's own context words."""
    bare_digits: Literal["find", "in_context"] = "find"
    """`in_context`: digits without punctuation count only near a context word."""
    numbers: Literal["find", "in_context"] = "in_context"
    """`find`: a number (of JSON, or of a numeric field) counts by its form alone."""


class PatternRule(PolicyPart):
    """A pattern that the policy defines."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    """Name of the pattern; findings name it `policy:<id>`."""
    entity: EntityName
    """The entity of what it matches."""
    syntax: PatternSyntax = "re2"
    """`regex` is for rules of the package alone, which need look-around."""
    ignore_case: bool = False
    """Lower and upper case are the same."""
    verbose: bool = False
    """White space in the pattern is layout and matches nothing (syntax `regex` alone)."""
    group: int | str = 0
    """Number or name of the group that is the value; 0 is the whole match."""
    pattern: Annotated[str, Field(min_length=1, max_length=4000)]
    """The pattern, in the syntax of RE2. `\\w`, `\\d` and `\\b` know ASCII letters and digits only;
    `\\pL` is any letter."""
    score: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Score of its findings, which `min_score` of the entity is compared with."""
    context: list[str] = []
    """Words that raise the score when they stand before a finding."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str, info: ValidationInfo) -> str:
        given = info.data
        if given.get("syntax") != "re2" or not {"group", "ignore_case", "verbose"} <= given.keys():
            return pattern
        try:
            compiled_pattern(_definition(pattern, given))
        except PolicyError as error:
            raise ValueError(str(error)) from error
        return pattern

    @property
    def definition(self) -> PatternDefinition:
        """The pattern for a detector."""
        return PatternDefinition(
            name=self.id,
            entity=self.entity,
            syntax=self.syntax,
            pattern=self.pattern,
            group=self.group,
            ignore_case=self.ignore_case,
            verbose=self.verbose,
            score=self.score,
            context=frozenset(word.lower() for word in self.context),
        )


def _definition(pattern: str, given: dict[str, Any]) -> PatternDefinition:
    return PatternDefinition(
        name="",
        entity="",
        syntax="re2",
        pattern=pattern,
        group=given["group"],
        ignore_case=given["ignore_case"],
        verbose=given["verbose"],
        score=1.0,
        context=frozenset(),
    )


class KeyRule(PolicyPart):
    """Values of JSON keys with these names are this entity, whatever they look like.

    Case and punctuation of names are ignored.
    """

    entity: EntityName
    """The entity of the values."""
    names: list[str] = []
    """Last words of a key: `zip_code` is also billing_zip_code."""
    whole: list[str] = []
    """All words of a key."""
    anywhere: list[str] = []
    """Any words of a key."""
    roles: list[str] = []
    """Last words of keys that say who a person is (`passenger`): values under them are read by the
    model of `ner`, which tells names of persons from other values."""
    unless: list[str] = []
    """A key that ends with one of these has no entity."""

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        if not (self.names or self.whole or self.anywhere or self.roles):
            raise ValueError(f"the key rule of {self.entity} has no names")
        if self.roles and self.entity != PERSON:
            raise ValueError(
                f"the key rule of {self.entity} has roles, which are those of {PERSON}"
            )
        return self


class FieldRule(PolicyPart):
    """The treatment of a field of the event and of everything inside it.

    The first rule that matches decides.
    """

    path: Annotated[str, Field(min_length=1)]
    """A glob such as `metadata_json`, `observation.messages` or `usage.*`."""
    do: Literal["scan", "drop_field"]
    """`drop_field` empties the field unread."""


class LearnRule(PolicyPart):
    """The values that are learned from a trajectory and found everywhere else in it."""

    entities: list[EntityName] | None = None
    """None stands for those of persons and accounts, as far as the policy declares them."""
    scope: Literal["trajectory", "tenant", "off"] = "trajectory"
    """The range of what is learned: its trajectory, or all later events of the tenant."""

    @field_validator("scope", mode="before")
    @classmethod
    def _off(cls, scope: Any) -> Any:
        # YAML reads the word `off` without quotes as false.
        return "off" if scope is False else scope


RewardRange: TypeAlias = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=2, max_length=2)
]


class RewardTerms(PolicyPart):
    """The terms of rewards and feedback."""

    self: Literal["deny", "analytics", "train"] = "analytics"
    """The use of judgements by keys without the permission `reward`, such as an agent's own:
    `deny` quarantines them, `analytics` keeps them out of everything that is learned from,
    `train` lets them count like others."""
    ranges: dict[str, RewardRange] = {}
    """Lowest and highest value by dimension; `*` is for those that are not named. Values outside
    are quarantined. Without an entry the range is -1000 to 1000."""

    @field_validator("ranges")
    @classmethod
    def _are_ordered(cls, ranges: dict[str, list[float]]) -> dict[str, list[float]]:
        for dimension, (low, high) in ranges.items():
            if low >= high:
                raise ValueError(
                    f"the range of {dimension} must be two numbers, the lowest and the highest"
                )
        return ranges

    def range_of(self, dimension: str) -> tuple[float, float]:
        """Return the lowest and the highest value of a dimension, both inclusive."""
        low, high = self.ranges.get(dimension) or self.ranges.get("*") or DEFAULT_REWARD_RANGE
        return low, high


class NerRule(PolicyPart):
    """A trained model that finds names, places and organisations in prose."""

    model: Annotated[str, Field(pattern=r"^[a-z]+:.+$")] = "atdp:names"
    """`atdp:names`, `spacy:PACKAGE_OR_PATH` or `transformers:PATH`."""
    entities: Annotated[list[EntityName], Field(min_length=1)]
    """Those of its findings that count, from their `min_score` on."""


class PolicyLimits(PolicyPart):
    """Limits; an event beyond them is quarantined."""

    leaf_chars: Annotated[int, Field(ge=1_000, le=4_000_000)] = 400_000
    """Characters of one string."""
    json_depth: Annotated[int, Field(ge=1, le=32)] = 8
    """Levels of JSON within JSON."""
    new_values_per_hour: Annotated[int, Field(ge=10, le=1_000_000)] = 1_000
    """Distinct new values of one enumerable entity with the scope `tenant`, by key, above which
    governance raises an alarm; such events still pass."""
    pattern_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds of one pattern on one string."""
