"""The changes of a replay in what the model is shown: system prompt and tool definitions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from atdp.replay.cassette.recording import Chat
from atdp.replay.errors import ConfigError
from atdp.schemas import NotCanonical, canonical_json, canonical_sha256

_INSTRUCTING = frozenset({"system", "developer"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Counterfactual:
    """The changes; None: as recorded."""

    system_prompt: str | None = None
    tools: tuple[Chat, ...] | None = None

    @classmethod
    def read(cls, system_prompt: Path | None, tools: Path | None) -> Self:
        """Return the changes of two files: a text, and a JSON list of tools in OpenAI's shape.

        Raises:
            ConfigError: a file cannot be read, or is not such a list.
        """
        prompt = None if system_prompt is None else _text(system_prompt)
        if tools is None:
            return cls(system_prompt=prompt)
        try:
            document = json.loads(_text(tools))
            named = [str(tool["function"]["name"]) for tool in document]
            canonical_json(document).encode()  # refuses NaN, lone surrogates, deep nesting
        except (ValueError, KeyError, TypeError, RecursionError, NotCanonical) as error:
            raise ConfigError(
                f"{tools} is not a JSON list of tools in the form of OpenAI's `tools` parameter"
            ) from error
        if not isinstance(document, list) or len(set(named)) != len(named):
            raise ConfigError(f"{tools} names a tool twice, or is not a list")
        return cls(system_prompt=prompt, tools=tuple(document))

    @property
    def is_change(self) -> bool:
        """True when the model is shown something that was not recorded."""
        return self.system_prompt is not None or self.tools is not None

    @property
    def sha256(self) -> str | None:
        """The digest of the changes; None without any."""
        if not self.is_change:
            return None
        return canonical_sha256([self.system_prompt, self.tools and list(self.tools)])

    def opening(self, messages: Sequence[Chat]) -> list[Chat]:
        """Return the first messages of a conversation with the changed system prompt."""
        opening = list(messages)
        if self.system_prompt is None:
            return opening
        places = [number for number, each in enumerate(opening) if each["role"] in _INSTRUCTING]
        if not places:
            return [{"role": "system", "content": self.system_prompt}, *opening]
        opening[places[0]] = {**opening[places[0]], "content": self.system_prompt}
        return opening

    def shown_tools(self, recorded: Sequence[Chat]) -> tuple[Chat, ...]:
        """Return the tools that the model is shown."""
        return tuple(recorded) if self.tools is None else self.tools


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
