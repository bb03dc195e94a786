"""The candidate as an agent: turns of a live model over an engine's OpenAI-compatible interface."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.recording import Chat
from atdp.replay.errors import ScoringError, TurnRefused
from atdp.schemas import MalformedMessage, Message, message_from_chat

_ATTEMPTS = 3
"""Tries of one turn when the connection fails or the engine answers 5xx; asking changes nothing."""
_TOO_MUCH = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""Answers that engines give to a conversation that they cannot take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineAgent:
    """A model at `url`, whose every answer must name the weights `version`."""

    client: httpx.Client
    url: str
    model: str
    version: str
    settings: CassetteSettings

    def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message:
        """Return the model's next turn.

        Raises:
            TurnRefused: the engine does not take the conversation.
            ScoringError: the engine failed, or serves other weights.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "temperature": self.settings.temperature,
            "seed": self.settings.seed,
        }
        if tools:
            body["tools"] = list(tools)
        if self.settings.max_tokens is not None:
            body["max_tokens"] = self.settings.max_tokens
        response = self._post(body)
        if response.status_code in _TOO_MUCH:
            raise TurnRefused(
                f"the engine at {self.url} answered {response.status_code} to a conversation "
                f"of {len(messages)} messages"
            )
        return self._message(response)

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        failure = ""
        for _ in range(_ATTEMPTS):
            try:
                response = self.client.post(f"{self.url}/v1/chat/completions", json=body)
            except httpx.TransportError as error:
                failure = repr(error)
                continue
            if response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                return response
            failure = f"it answered {response.status_code}"
        raise ScoringError(f"no turn came from the engine at {self.url}: {failure}")

    def _message(self, response: httpx.Response) -> Message:
        if response.status_code != HTTPStatus.OK:
            raise ScoringError(
                f"the engine at {self.url} answered {response.status_code} to a chat request"
            )
        try:
            answer = response.json()
            version = answer["metadata"]["weight_version"]
            message = message_from_chat(answer["choices"][0]["message"], "the engine's answer")
        except (ValueError, KeyError, TypeError, IndexError, MalformedMessage) as error:
            raise ScoringError(
                f"the engine at {self.url} did not answer with a chat message and "
                f"metadata.weight_version, as SGLang 0.5.23 does ({type(error).__name__})"
            ) from error
        if version != self.version:
            raise ScoringError(
                f"the engine at {self.url} serves weights {version!r}, "
                f"but {self.version!r} is to be replayed"
            )
        return message
