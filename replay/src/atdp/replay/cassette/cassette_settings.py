"""The settings of cassette replay and of teacher forcing, as a file (YAML) or from the command."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from atdp.replay.cassette.tool_rules import ToolRule
from atdp.replay.config import LONGEST_TIMEOUT_S
from atdp.replay.errors import ConfigError
from atdp.runtime import DocumentError, YamlDocument

Divergence: TypeAlias = Literal[
    "stop_score_prefix", "fail", "pooled_exact", "normalised", "nearest"
]
RewardBasis: TypeAlias = Literal["actions", "calls", "writes"]


class CassetteSettings(BaseModel):
    """The matching of calls, the meaning of a divergence, and the demands of the verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    divergence: Divergence = "stop_score_prefix"
    """For a call that is not on the cassette. `stop_score_prefix` and `fail` end the trajectory
    there; under `fail` one divergence fails the replay. `normalised` also takes a recorded call of
    the same normal form, `pooled_exact` also the same call in another recording of the task in the
    same state. `nearest` answers reads with the most similar recorded read of the tool; what
    follows such an answer never counts."""
    tools: dict[str, ToolRule] = {}
    reward_depends_on: RewardBasis = "actions"
    """The part that must be equal for the recorded reward to be the replay's: every call and the
    last reply (`actions`), every call in its order (`calls`), or every write in its order
    (`writes`)."""
    min_coverage: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Least share of the replayed trajectories that reach the end of their recording (cassette)."""
    margin: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Distance by which the candidate's agreement with the recordings may be below the recorded
    agent's agreement with itself."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """One-sided error of the bounds."""
    min_tasks: Annotated[int, Field(ge=2)] = 10
    """Tasks with several recordings by one agent that the comparison needs; under `fail`, tasks
    that PASS needs."""
    seed: int = 0
    """Of the candidate's sampling where its temperature is above 0."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """Of the candidate. 0, its most likely action, makes two runs comparable."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one reply; None: as the engine has it."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Model calls of one trajectory; None: twice as many as recorded, and two."""
    parallel: Annotated[int, Field(ge=1, le=256)] = 1
    """Conversations at a time. More are quicker, and may change the last bits of an engine's
    numbers, since its batches are others."""
    timeout_s: Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT_S)] = 120.0
    """Longest wait for one reply."""


def read_cassette_settings(file: Path | None, **changes: object) -> CassetteSettings:
    """Return the settings of a file (None: the defaults) with changes; None changes nothing.

    Raises:
        ConfigError: the file cannot be read, or a setting is wrong; the message names its place.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        settings = CassetteSettings()
        if file is not None and (document := YamlDocument.read(file)).value is not None:
            settings = document.as_model(CassetteSettings)
        changed = settings.model_dump(mode="json") | given
        return YamlDocument.of_value(changed, where="the options").as_model(CassetteSettings)
    except DocumentError as error:
        known = ", ".join(CassetteSettings.model_fields)
        raise ConfigError(f"not usable settings: {error} (settings are {known})") from error
