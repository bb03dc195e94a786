"""The settings file of gates: the metrics, with direction, margin and the meaning of missing data.

Unknown keys are errors, because a misspelt key would be a gate without effect.
"""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from atdp.replay.errors import ConfigError
from atdp.runtime import DocumentError, YamlDocument

Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.^-]{0,62}$")]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
SqlText: TypeAlias = Annotated[str, Field(min_length=1)]
Hypothesis: TypeAlias = Literal["non_inferiority", "superiority"]
Missing: TypeAlias = Literal["worst_case", "ignorable"]
Direction: TypeAlias = Literal["higher", "lower"]


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError("give a lower and then a higher number")
    return bounds


class _StrictGate(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    critical: bool = True
    """Only critical metrics decide the verdict; the others are shown."""


class MeanGate(_StrictGate):
    """The mean of a bounded value, by default the reward, compared on each task.

    PASS needs a difference that is shown to be above `-margin` (`non_inferiority`) or above
    `margin` (`superiority`), in the direction that is better. FAIL needs one that is shown to be
    below `-margin`, or below 0.
    """

    kind: Literal["mean"]
    value: SqlText = "reward"
    """SQL expression over the columns of `trajectories`."""
    direction: Direction = "higher"
    """The better direction."""
    hypothesis: Hypothesis = "non_inferiority"
    margin: Annotated[Number, Field(ge=0)] = 0.05
    range: Annotated[tuple[Number, Number], AfterValidator(_rising)] = (0.0, 1.0)
    """Lowest and highest value; another one is an error."""
    success_from: Number = 0.5
    """Least value that counts as a success in the table of flips; for the direction `lower` the
    greatest."""
    missing: Missing = "worst_case"
    """Runs without the value. `worst_case`: the candidate's count as the worst value and the
    baseline's as the best one for PASS, and the other way round for FAIL; so do tasks that only the
    other one has done. `ignorable`: they are left out, which assumes that they are missing by
    chance."""

    @model_validator(mode="after")
    def _check_margin(self) -> Self:
        low, high = self.range
        if self.margin >= high - low:
            raise ValueError(
                f"margin {self.margin:g} is not below {high - low:g}, the width of `range`, so "
                "nothing could be judged by it; give it in units of the value"
            )
        return self


class PassKGate(_StrictGate):
    """The probability that `k` attempts at a task all succeed (pass^k of tau-bench)."""

    kind: Literal["pass_k"]
    k: Annotated[int, Field(ge=1, le=64)]
    value: SqlText = "reward"
    success_from: Number = 0.5
    hypothesis: Hypothesis = "non_inferiority"
    margin: Annotated[Number, Field(ge=0, lt=1)] = 0.05
    missing: Missing = "worst_case"
    """As for `mean`. In the worst case, attempts without the value count as failed, and so do the
    attempts that a task has fewer than `k`."""


class InvariantGate(_StrictGate):
    """A safety rule that no trajectory of the candidate may violate.

    One violation is a FAIL. Without one, PASS needs so many tasks that the upper bound of the rate
    of violations is at most `max_rate`. Trajectories whose record is incomplete can show a
    violation, and never that there was none.
    """

    kind: Literal["invariant"]
    table: Literal["events", "steps", "trajectories"] = "events"
    violation: SqlText
    """SQL condition over the columns of the table that holds for a violation."""
    max_rate: Annotated[Number, Field(gt=0, lt=1)] = 0.05
    """Greatest rate of violating tasks that the data must rule out."""


class RatioGate(_StrictGate):
    """The ratio of total costs, latencies or other positive amounts on the same tasks.

    PASS needs a ratio that is shown to be below `1 + margin` (`non_inferiority`; for the direction
    `higher` above `1 - margin`). Runs without the value are left out.
    """

    kind: Literal["ratio"]
    value: SqlText
    """SQL expression over the columns of `trajectories`, such as `cost` or `latency_us`."""
    direction: Direction = "lower"
    hypothesis: Hypothesis = "non_inferiority"
    margin: Annotated[Number, Field(ge=0, lt=1)] = 0.1


PairedGate: TypeAlias = MeanGate | PassKGate | RatioGate
MetricGate: TypeAlias = Annotated[PairedGate | InvariantGate, Field(discriminator="kind")]


class GateSettings(BaseModel):
    """The gates of a release and the rules that all of them share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: Annotated[tuple[MetricGate, ...], Field(min_length=1)] = (
        MeanGate(kind="mean", name="reward"),
        RatioGate(kind="ratio", name="cost", value="cost", critical=False),
        RatioGate(kind="ratio", name="latency", value="latency_us", margin=0.2, critical=False),
    )
    alpha: Annotated[Number, Field(gt=0, lt=0.5)] = 0.05
    """Probability that any tenant passes wrongly, and that any tenant fails wrongly."""
    looks: Annotated[int, Field(ge=1)] = 1
    """Number of times that these gates will be looked at while the data grow; each look spends
    `alpha / looks`."""
    min_tasks: Annotated[int, Field(ge=2)] = 20
    """Least number of tasks that both have done, for any conclusion from a comparison."""
    min_coverage: Annotated[Number, Field(gt=0, le=1)] = 0.9
    """Least share of the trajectories that have the value, and of the tasks that both have done."""
    tenants: tuple[str, ...] = ()
    """Tenants that must pass; one without data is INCONCLUSIVE. Empty: every tenant in the data."""
    trajectory_url: str | None = None
    """Address of a trajectory, for the links of the page, with `{tenant}`, `{trajectory}` and
    `{attempt}`. None: the page shows the names alone."""
    resamples: Annotated[int, Field(ge=200, le=100_000)] = 2000
    """Bootstrap samples of tasks for the band of the pass^k curve."""
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        names = [metric.name for metric in self.metrics]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"several metrics are named {', '.join(sorted(repeated))}")
        if not any(metric.critical for metric in self.metrics):
            raise ValueError("no metric is critical, so nothing could decide; make one critical")
        if self.trajectory_url is not None:
            if not self.trajectory_url.startswith(("http://", "https://")):
                raise ValueError("trajectory_url must begin with http:// or https://")
            try:
                self.trajectory_url.format(tenant="", trajectory="", attempt=0)
            except (KeyError, IndexError, ValueError):
                raise ValueError(
                    "trajectory_url may hold {tenant}, {trajectory} and {attempt}, nothing else"
                ) from None
        return self

    @property
    def spent_alpha(self) -> float:
        """The error that this look may spend."""
        return self.alpha / self.looks


def read_gate_settings(file: Path) -> GateSettings:
    """Return the settings of a YAML file.

    Raises:
        ConfigError: the file cannot be read or is wrong; the message names line and column.
    """
    try:
        return YamlDocument.read(file).as_model(GateSettings)
    except DocumentError as error:
        raise ConfigError(str(error)) from error
