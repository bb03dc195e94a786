"""Settings files of evaluations: YAML with fields of `ReplayConfig`, each with its default.

An unknown name is an error, because a misspelt setting would be one without effect.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, create_model

from atdp.replay.config import ReplayConfig
from atdp.replay.errors import ConfigError
from atdp.runtime import DocumentError, YamlDocument

_HINTS = get_type_hints(ReplayConfig)
_NAMES = tuple(field.name for field in fields(ReplayConfig))
_FIELDS: dict[str, Any] = {
    field.name: (_HINTS[field.name], field.default) for field in fields(ReplayConfig)
}
_MODEL = create_model(
    "ReplaySettings",
    __config__=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
    **_FIELDS,
)


def settings_of(document: YamlDocument) -> dict[str, Any]:
    """Return the settings that a document gives; one without any gives none.

    Raises:
        ConfigError: it is no such document; the message names line and column.
    """
    if document.value is None:
        return {}
    _check_names(document)
    try:
        return dict(document.as_model(_MODEL).model_dump(exclude_unset=True))
    except DocumentError as error:
        raise ConfigError(f"not usable settings of a replay: {error}") from error


def _check_names(document: YamlDocument) -> None:
    value = document.value
    unknown = [key for key in value if key not in _NAMES] if isinstance(value, dict) else []
    if unknown:
        raise ConfigError(
            f"{document.where_is((str(unknown[0]),))}: there is no setting {unknown[0]!r}; "
            f"the settings are {', '.join(_NAMES)}"
        )


def read_config(file: Path | None, given: Mapping[str, object]) -> ReplayConfig:
    """Return the settings of a file, or the defaults, with those that are `given` instead.

    A given value that is None is not given.

    Raises:
        ConfigError: the file cannot be read or used, or a value is outside its range.
    """
    chosen: dict[str, Any] = {}
    if file is not None:
        try:
            document = YamlDocument.read(file)
        except DocumentError as error:
            raise ConfigError(f"not usable settings of a replay: {error}") from error
        chosen = settings_of(document)
    chosen |= {name: value for name, value in given.items() if value is not None}
    return ReplayConfig(**chosen)
