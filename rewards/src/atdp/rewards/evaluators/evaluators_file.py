"""The evaluators file of a tenant: which judges and checks look at which finished trajectories.

`evaluators/<tenant>.yaml` in the home; a tenant without one has no evaluators. Unknown keys are
errors. What changes a verdict (model, prompt, answer's size, function) is part of an evaluator's
identity; what does not (share, filter, budget, retries, time-outs) is not.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, model_validator

from atdp.schemas import EndStatus, canonical_sha256

_HASH_LENGTH = 12
_HOUR_S = 3600.0

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=24 * _HOUR_S)]
Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _with_time_zone(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError("give a time zone, for example 2026-03-04T12:00:00Z")
    return at


class _StrictSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApiKeySource(_StrictSection):
    """The origin of an API key: an environment variable of the worker, or a file."""

    env: str | None = None
    file: str | None = None
    """Path; a relative one starts at the folder of the evaluators files."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("give env or file")
        return self


class Prompt(_StrictSection):
    """The template of the question, inline or in a file; see `judge_prompt` for placeholders."""

    text: str | None = None
    file: str | None = None
    """Path; a relative one starts at the folder of the evaluators files."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("give text or file")
        return self


class Filter(_StrictSection):
    """The trajectories that an evaluator looks at; None: all."""

    agent: tuple[str, ...] | None = None
    status: tuple[EndStatus, ...] | None = None


class Budget(_StrictSection):
    """Most calls, and most cost, of one UTC day; what is beyond waits for the next day."""

    calls_per_day: Annotated[int, Field(ge=0)] = 1000
    cost_per_day: Amount | None = None


class Price(_StrictSection):
    """Prices of a judge's tokens, in the currency of `Budget.cost_per_day`."""

    per_1m_input_tokens: Amount
    per_1m_output_tokens: Amount


class Retries(_StrictSection):
    """Attempts at one verdict: some at once, then parked and tried again later, for ever."""

    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """Calls in a row before a trajectory is parked."""
    first_wait_s: Seconds = 1.0
    """Wait before the second call; doubles up to `longest_wait_s`."""
    longest_wait_s: Seconds = 20.0
    parked_s: Seconds = 60.0
    """Time for which a trajectory is parked first; doubles up to `longest_parked_s`."""
    longest_parked_s: Seconds = 6 * _HOUR_S


class _EvaluatorBase(_StrictSection):
    name: Name
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the trajectories that are looked at, chosen by a hash of their names."""
    since: Annotated[datetime, AfterValidator(_with_time_zone)] | None = None
    """Only trajectories that ended at or after this time."""
    filter: Filter = Filter()
    budget: Budget = Budget()
    retries: Retries = Retries()
    timeout_s: Seconds = 60.0
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    """Evaluations at the same time in one worker."""


class JudgeEvaluator(_EvaluatorBase):
    """A model behind an OpenAI-compatible endpoint."""

    kind: Literal["judge"]
    base_url: HttpUrl
    """Address up to and without `/chat/completions`."""
    model: str
    api_key: ApiKeySource | None = None
    prompt: Prompt
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_answer_tokens: Annotated[int, Field(ge=16, le=32_768)] = 512
    max_conversation_tokens: Annotated[int, Field(ge=100, le=1_000_000)] = 16_000
    """Longest conversation shown, at four characters a token; the middle of longer ones is left
    out."""
    answer_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    """The `response_format` of the request. The answer is checked in any case."""
    price: Price | None = None

    @model_validator(mode="after")
    def _check_price(self) -> Self:
        if self.budget.cost_per_day is not None and self.price is None:
            raise ValueError("budget.cost_per_day needs price, by which the cost is computed")
        return self


class CallableEvaluator(_EvaluatorBase):
    """A Python function, which runs in a process of its own."""

    kind: Literal["callable"]
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    """`module:function`; modules beside the evaluators files are found too."""
    memory_mb: Annotated[int, Field(ge=64, le=65_536)] = 1024
    """Largest address space of the process."""

    @model_validator(mode="after")
    def _check_cost(self) -> Self:
        if self.budget.cost_per_day is not None:
            raise ValueError("budget.cost_per_day is for judges; a function has no cost")
        return self


Evaluator: TypeAlias = Annotated[JudgeEvaluator | CallableEvaluator, Field(discriminator="kind")]

_NOT_OF_THE_VERDICT = frozenset(
    {"share", "since", "filter", "budget", "retries", "timeout_s", "concurrency", "price"}
    | {"api_key", "prompt", "memory_mb"}
)


class EvaluatorsFile(_StrictSection):
    """One evaluators file."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    evaluators: tuple[Evaluator, ...]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if not self.evaluators:
            raise ValueError("the list of evaluators is empty; remove the file to have none")
        names = [evaluator.name for evaluator in self.evaluators]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"several evaluators are named {', '.join(sorted(repeated))}")
        return self

    def identity_of(self, evaluator: Evaluator, content: str) -> str:
        """Return `VERSION-HASH` of an evaluator, whose prompt or source code is `content`."""
        fields: dict[str, Any] = evaluator.model_dump(mode="json", exclude=set(_NOT_OF_THE_VERDICT))
        digest = canonical_sha256({**fields, "content": content})
        return f"{self.version}-{digest[:_HASH_LENGTH]}"
