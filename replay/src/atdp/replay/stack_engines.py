"""The engines of a running stack: finds one for each version that is to be scored.

An engine that already serves the version of this model is used as it is, because scoring does not
disturb it. Otherwise a spare engine, which no route of the gateway names, loads the version from
the weight registry. So an evaluation never changes the weights that answer customers. Baseline and
candidate may take turns on one engine. An engine is loaded under its lock (`locks`), so that the
release flow does not route to it meanwhile.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from atdp.inference import EngineClient, EngineError, lock_engine_weights
from atdp.replay.config import ReplayConfig
from atdp.replay.errors import NoEngineError
from atdp.replay.run import PolicyVersion, http_scorer
from atdp.replay.scoring import Scorer

ROUTED_BY_DEFAULT = "inference-0"
"""The engine that answers all sessions while the gateway has no routes file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StackEngines:
    """The engines of a running stack.

    `weights` is the registry's root, `routes_file` the gateway's routes, `locks` the folder of the
    home's locks.
    """

    endpoints: Mapping[str, str]
    weights: Path
    routes_file: Path
    locks: Path
    load_timeout_s: float = 120.0

    @contextmanager
    def open(self, policy: PolicyVersion, config: ReplayConfig) -> Iterator[Scorer]:
        """Open a scorer for the policy; an empty `policy.url` means that an engine is found here.

        Raises:
            NoEngineError: no engine serves the version, and none could be made to serve it.
        """
        url = policy.url or self.find(policy)
        with http_scorer(replace(policy, url=url), config) as scorer:
            yield scorer

    def find(self, policy: PolicyVersion) -> str:
        """Return the URL of an engine that serves the policy; a spare engine may have loaded it.

        Raises:
            NoEngineError: no engine serves the version, and none could be made to serve it.
        """
        engines = {
            name: url.rstrip("/")
            for name, url in sorted(self.endpoints.items())
            if name.startswith("inference-")
        }
        with httpx.Client(timeout=self.load_timeout_s, trust_env=False) as client:
            for url in engines.values():
                if self._serves(client, url, policy):
                    return url
            for name, url in engines.items():
                with lock_engine_weights(self.locks, name):
                    if not {name, url} & self._routed():
                        self._load(client, url, policy)
                        return url
        raise NoEngineError(
            f"no engine serves {policy.model} {policy.version}, and the gateway routes sessions "
            f"to every engine of the stack ({', '.join(engines) or 'none is running'}); "
            "finish the canary, register the candidate "
            "(which ends the draining of an earlier version), or name another engine by URL"
        )

    def _serves(self, client: httpx.Client, url: str, policy: PolicyVersion) -> bool:
        try:
            info = EngineClient(http=client, url=url).info()
        except EngineError:
            return False
        return info.serves(self.weights, policy.model, policy.version)

    def _routed(self) -> set[str]:
        """Return the names and URLs of engines that answer customers."""
        try:
            routes = json.loads(self.routes_file.read_text("utf-8"))
            tracks = (routes["stable"], routes.get("canary"))
            return {str(track["url"]) for track in tracks if track}
        except FileNotFoundError:
            return {ROUTED_BY_DEFAULT}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoEngineError(
                f"{self.routes_file} is not a routing table, "
                "so it is not known which engine is spare"
            ) from error

    def _load(self, client: httpx.Client, url: str, policy: PolicyVersion) -> None:
        directory = (self.weights / policy.model / policy.version).resolve()
        if not (directory / "manifest.json").is_file():
            raise NoEngineError(
                f"there is no {policy.model} {policy.version} in the weight registry ({directory})"
            )
        try:
            EngineClient(http=client, url=url).load_weights(
                directory, policy.version, timeout_s=self.load_timeout_s
            )
        except EngineError as error:
            raise NoEngineError(str(error)) from error
