"""A client of one engine that speaks SGLang's HTTP API (0.5.23).

An engine is an SGLang server or the embedded worker. The client asks what the engine serves, loads
weights and scores logged tokens. It keeps no state. Only scoring is repeated after a failure, since
it changes nothing in the engine. Every failure is an `EngineError` that names the address of the
engine; `EngineConnectionError` means that no usable answer came.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from atdp.inference.engine_info import EngineInfo, parse_engine_info
from atdp.inference.engine_token import bearer
from atdp.inference.errors import EngineConnectionError, EngineError, ModelError
from atdp.inference.weights_manifest import weights_sha256

_log = logging.getLogger("atdp.inference.client")

_INFO_TIMEOUT_S = 5.0
_LOAD_TIMEOUT_S = 120.0
"""Loading reads all weights from the disk; SGLang pauses generation meanwhile."""
_SCORING_ATTEMPTS = 3
"""Tries per scoring request when the connection fails or the engine answers 5xx."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredSequence:
    """The log-probabilities of one sequence, and the weight version that gave them."""

    weight_version: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probability of each token given those before it; the first is NaN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineClient:
    """Calls the engine at `url` through `http`, whose owner closes it."""

    http: httpx.Client
    url: str
    """Base address without a slash at its end."""
    token: str = field(repr=False)
    """The token of the home's engines."""

    def info(self, *, timeout_s: float = _INFO_TIMEOUT_S) -> EngineInfo:
        """Return what the engine serves; an engine without weights (503) gives an empty answer.

        Raises:
            EngineConnectionError: no usable answer came.
        """
        try:
            response = self.http.get(
                f"{self.url}/model_info", headers=bearer(self.token), timeout=timeout_s
            )
            self._check_access(response)
            if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                return EngineInfo()
            document = response.raise_for_status().json()
            return parse_engine_info(document)
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            raise EngineConnectionError(
                f"the engine at {self.url} does not answer: {error!r}"
            ) from error

    def load_weights(
        self,
        directory: Path,
        version: str,
        *,
        expected_sha256: str,
        timeout_s: float = _LOAD_TIMEOUT_S,
    ) -> None:
        """Make the engine serve the weights in `directory` under the name `version`.

        The engine must see the directory under the same path. The weights must have the digest
        `expected_sha256`: they are hashed here, since SGLang does not verify what it loads, and the
        digest that the engine reports afterwards, if it reports one, must be the same.

        Raises:
            EngineConnectionError: no usable answer came; the engine may load the weights even so.
            EngineError: the weights are not the expected ones, or the engine refused them and
                serves what it served before.
        """
        self._check_digest(directory, version, expected_sha256)
        self._update_weights(directory, version, expected_sha256, timeout_s)
        served = self.info(timeout_s=timeout_s)
        if served.weight_version != version or served.weights_sha256 not in {None, expected_sha256}:
            raise EngineError(
                f"the engine at {self.url} took {version} but reports that it serves "
                f"{served.weight_version} with the digest {served.weights_sha256}"
            )

    def _check_digest(self, directory: Path, version: str, expected_sha256: str) -> None:
        try:
            found = weights_sha256(directory)
        except ModelError as error:
            raise EngineError(f"{version} cannot be loaded: {error}") from error
        if found != expected_sha256:
            raise EngineError(
                f"the weights in {directory} have the digest {found[:12]}…, but {version} has "
                f"{expected_sha256[:12]}…; restore them from a backup or publish again"
            )

    def _update_weights(
        self, directory: Path, version: str, expected_sha256: str, timeout_s: float
    ) -> None:
        body = {
            "model_path": str(directory.resolve()),
            "weight_version": version,
            "weights_sha256": expected_sha256,
            "flush_cache": True,
        }
        try:
            response = self.http.post(
                f"{self.url}/update_weights_from_disk",
                json=body,
                headers=bearer(self.token),
                timeout=timeout_s,
            )
            self._check_access(response)
            answer = response.json()
            accepted = response.status_code == HTTPStatus.OK and bool(answer.get("success"))
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            raise EngineConnectionError(
                f"the engine at {self.url} did not take {version}: {error!r}"
            ) from error
        if not accepted:
            raise EngineError(
                f"the engine at {self.url} did not take {version}: {answer.get('message', answer)}"
            )

    def score(self, sequences: Sequence[Sequence[int]]) -> list[ScoredSequence]:
        """Return the log-probabilities of all tokens at temperature 1, in one request.

        Raises:
            EngineConnectionError: no answer came.
            EngineError: the engine refused the request, or its answer is not SGLang's.
        """
        response = self._post_scoring(sequences)
        if response.status_code != HTTPStatus.OK:
            raise EngineError(
                f"the engine at {self.url} answered {response.status_code} to a batch "
                f"of {len(sequences)} sequences of up to {max(map(len, sequences))} tokens: "
                f"{response.text[:300]}"
            )
        try:
            answers = response.json()
        except ValueError as error:
            raise EngineError(
                f"the engine at {self.url} answered something that is not JSON"
            ) from error
        if not isinstance(answers, list) or len(answers) != len(sequences):
            raise EngineError(
                f"the engine at {self.url} did not answer a list of {len(sequences)} results"
            )
        return [self._scored(answer) for answer in answers]

    def _post_scoring(self, sequences: Sequence[Sequence[int]]) -> httpx.Response:
        body = {
            "input_ids": [list(sequence) for sequence in sequences],
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        for attempt in range(1, _SCORING_ATTEMPTS + 1):
            last = attempt == _SCORING_ATTEMPTS
            try:
                response = self.http.post(
                    f"{self.url}/generate", json=body, headers=bearer(self.token)
                )
                self._check_access(response)
            except httpx.TransportError as error:
                if last:
                    raise EngineConnectionError(
                        f"no answer from the engine at {self.url}: {error!r}. "
                        "Is it running? See `atdp status`."
                    ) from error
                continue
            if last or response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                return response
            _log.info("engine %s answered %d; trying again", self.url, response.status_code)
        raise AssertionError("the last attempt returns or raises")

    def _check_access(self, response: httpx.Response) -> None:
        if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise EngineConnectionError(
                f"the engine at {self.url} refuses the token of this home "
                f"({response.status_code}); give it the content of secrets/engine.key"
            )

    def _scored(self, answer: Any) -> ScoredSequence:
        try:
            meta = answer["meta_info"]
            rows = meta["input_token_logprobs"]
            return ScoredSequence(
                weight_version=meta["weight_version"],
                token_ids=tuple(int(row[1]) for row in rows),
                logprobs=tuple(float("nan") if row[0] is None else float(row[0]) for row in rows),
            )
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise EngineError(
                f"the engine at {self.url} answered without meta_info.weight_version "
                "or input_token_logprobs; it must speak SGLang's /generate (0.5.23)"
            ) from error
