"""The rules file of a tenant: which evidence becomes which reward.

`rewards/<tenant>.yaml` in the home; a tenant without one has the rules of `rewards/default.yaml`.
Unknown keys are errors, because a misspelt key would be a rule without effect. The identity of a
rules file is its `version` and the hash of its content, so that a changed file never passes for
the one before. Comments and spacing do not change the hash.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from atdp.rewards.errors import RulesError
from atdp.rewards.evidence import RatingType
from atdp.runtime import DocumentError, YamlDocument
from atdp.schemas import EndStatus, canonical_sha256

Combination: TypeAlias = Literal["priority", "mean", "median", "minimum", "maximum"]
"""The way from the rewards of several rules for one target to one: that of the first rule with
evidence (`priority`), or a statistic of all of them."""
Dimension: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]

_HASH_LENGTH = 12


class _StrictRule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FeedbackRule(_StrictRule):
    """Feedback of people.

    `value: scaled` maps the feedback's number, cut to its range, to 0 … 1; feedback without a range
    is used as it is. A mapping gives the value by the feedback's type, which `accept`, `edit` and
    `reject` need because they have no number.
    """

    name: Name
    source: Literal["feedback"] = Field(alias="from")
    types: Annotated[tuple[RatingType, ...], Field(min_length=1)]
    dimension: str | None = None
    """Only feedback about this dimension; None: about the outcome."""
    value: Literal["scaled"] | dict[RatingType, Number] = "scaled"
    target: Literal["named", "trajectory"] = "named"
    """The target that the feedback names (an answer, where it came by a response id), or always
    the trajectory: what people say about an answer is then said about the whole session."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        valued = {"rating", "thumbs"} if self.value == "scaled" else set(self.value)
        if missing := set(self.types) - valued:
            raise ValueError(f"value has no number for {', '.join(sorted(missing))}")
        return self


class OutcomeRule(_StrictRule):
    """Results of tool calls: errors, exit codes, tests.

    `when` chooses the results: those with an error, those without, or all. `value: exit_code` is 1
    for exit code 0 and 0 for any other; results without one are no evidence.
    """

    name: Name
    source: Literal["outcome"] = Field(alias="from")
    tool: str | None = None
    when: Literal["error", "ok", "any"] = "any"
    target: Literal["step", "trajectory"] = "step"
    value: Literal["exit_code"] | Number


class EndRule(_StrictRule):
    """The way in which a trajectory ended, time-outs included (`idle`, `truncated`)."""

    name: Name
    source: Literal["end"] = Field(alias="from")
    status: Annotated[tuple[EndStatus, ...], Field(min_length=1)]
    unanswered: bool | None = None
    """True: only where the last answer of the model asked for tools, so that nobody got an answer.
    False: only where it did not. None: any."""
    value: Number


class JudgeRule(_StrictRule):
    """The verdicts of a judge or a check (see evaluators); `scaled` takes its score."""

    name: Name
    source: Literal["judge"] = Field(alias="from")
    judge: Name
    value: Literal["scaled"] = "scaled"


class ObservedRule(_StrictRule):
    """Rewards that a producer observed itself, as they are."""

    name: Name
    source: Literal["reward"] = Field(alias="from")
    source_name: str | None = None
    dimension: str = "outcome"


Rule: TypeAlias = Annotated[
    FeedbackRule | OutcomeRule | EndRule | JudgeRule | ObservedRule, Field(discriminator="source")
]


class Penalties(_StrictRule):
    """Amounts that are taken off the reward of a trajectory, for cost and length."""

    per_cost: Annotated[Number, Field(ge=0)] = 0.0
    """Per unit of the currency of the trajectory's cost."""
    per_1000_output_tokens: Annotated[Number, Field(ge=0)] = 0.0
    per_step: Annotated[Number, Field(ge=0)] = 0.0
    at_most: Annotated[Number, Field(ge=0)] = 1.0
    """Largest sum of all penalties."""


class TrajectoryCombination(_StrictRule):
    """The way to one reward of a trajectory."""

    combine: Combination = "priority"
    penalties: Penalties = Penalties()


class StepCombination(_StrictRule):
    """The way to one reward of a step, or of an event."""

    combine: Combination = "minimum"


class Limits(_StrictRule):
    """Bounds on what one person can do. Ratings beyond them are no evidence, and are counted."""

    ratings_per_user_and_day: Annotated[int, Field(ge=1)] = 50
    share_per_user: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Largest share of the ratings of one window that come from one person."""
    window: Annotated[int, Field(ge=1)] = 200
    """Number of consecutive ratings of the tenant that form a window."""

    @property
    def ratings_per_user_and_window(self) -> int:
        """Number of ratings of one person that count in a window; at least one."""
        return max(1, int(self.share_per_user * self.window))


def _names_of_their_own(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = [rule.name for rule in rules]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"several rules are named {', '.join(sorted(repeated))}")
    return rules


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError("give a lower and then a higher number")
    return bounds


class RewardRules(_StrictRule):
    """One rules file."""

    version: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    dimension: Dimension = "outcome"
    """Dimension of the derived rewards."""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1), AfterValidator(_names_of_their_own)]
    """In order of priority."""
    range: Annotated[tuple[Number, Number], AfterValidator(_rising)] = (0.0, 1.0)
    """Lowest and highest reward; others are cut to it."""
    trajectory: TrajectoryCombination = TrajectoryCombination()
    step: StepCombination = StepCombination()
    limits: Limits = Limits()

    @property
    def sources(self) -> frozenset[str]:
        """The sources of evidence; the end is one where cost and length count."""
        ends = {"end"} if self.trajectory.penalties != Penalties() else set()
        return frozenset({rule.source for rule in self.rules} | ends)

    @property
    def identity(self) -> str:
        """`VERSION-HASH`: the version and the hash of the content."""
        digest = canonical_sha256(self.model_dump(mode="json"))
        return f"{self.version}-{digest[:_HASH_LENGTH]}"


DEFAULT_RULES = """\
# Rewards of tenants without a rules file of their own: what people say about a session. What they
# say about one answer counts for the whole session; without `target`, it counts for the answer.
version: 1
rules:
- {name: rating, from: feedback, types: [thumbs, rating], target: trajectory}
- {name: edit, from: feedback, types: [accept, edit, reject], target: trajectory,
   value: {accept: 1, edit: 0.5, reject: 0}}
"""
"""The rules of a new home.

A session that nobody judged has no reward by rule. Rewards that producers observe count as they
are.
"""


def parse_rules(text: str, *, where: str) -> RewardRules:
    """Return the rules of a YAML text; messages name it `where`.

    Raises:
        RulesError: the text is not such a file; the message names line and column.
    """
    try:
        return YamlDocument.parse(text, where=where).as_model(RewardRules)
    except DocumentError as error:
        raise RulesError(f"not usable reward rules: {error}") from error
