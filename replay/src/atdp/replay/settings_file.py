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


def parse_settings(text: str, *, where: str) -> dict[str, Any]:
    """Return the settings that a YAML text gives; messages name it `where`.

    Raises:
        ConfigError: the text is not such a file; the message names line and column.
    """
    definitions: dict[str, Any] = {
        field.name: (_HINTS[field.name], field.default) for field in fields(ReplayConfig)
    }
    model = create_model(
        "ReplaySettings",
        __config__=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
        **definitions,
    )
    try:
        document = YamlDocument.parse(text, where=where)
        if document.value is None:
            return {}
        _check_names(document)
        return dict(document.as_model(model).model_dump(exclude_unset=True))
    except DocumentError as error:
        raise ConfigError(f"not usable settings of a replay: {error}") from error


def _check_names(document: YamlDocument) -> None:
    value = document.value
    unknown = [key for key in value if key not in _NAMES] if isinstance(value, dict) else []
    if unknown:
        line, column = document.place_of((str(unknown[0]),))
        raise ConfigError(
            f"{document.where}:{line}:{column}: there is no setting {unknown[0]!r}; "
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
            chosen = parse_settings(file.read_text(encoding="utf-8"), where=str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the settings {file}: {error}") from error
    chosen |= {name: value for name, value in given.items() if value is not None}
    return ReplayConfig(**chosen)
