"""Finds an engine for each version to be scored, when nobody named one.

An engine that already serves the version of this model is used as it is (scoring does not disturb
it). Otherwise a spare engine, one that no route of the gateway names, loads it from the weight
registry: an evaluation never changes what a customer's session is answered by. Baseline and
candidate may so take turns on one engine. An engine is loaded under its lock (`locks`), so that the
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
from atdp.replay.run import Policy, http_scorer
from atdp.replay.scoring import Scorer

FIRST = "inference-0"
"""Serves everybody when the gateway has no routes file yet."""


@dataclass(frozen=True, kw_only=True)
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
    def open(self, policy: Policy, config: ReplayConfig) -> Iterator[Scorer]:
        """A scorer for the policy; an empty `policy.url` asks for an engine to be found.

        Raises `EngineError`.
        """
        with http_scorer(replace(policy, url=policy.url or self._find(policy)), config) as scorer:
            yield scorer

    def _find(self, policy: Policy) -> str:
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
        raise EngineError(
            f"no engine serves {policy.model} {policy.version}, and the gateway routes sessions to every engine"
            f" of the stack ({', '.join(engines) or 'none is running'}); finish the canary, register the"
            " candidate (which ends the draining of an earlier version), or name another engine by URL"
        )

    def _serves(self, client: httpx.Client, url: str, policy: Policy) -> bool:
        try:
            info = EngineClient(http=client, url=url).info()
        except EngineError:
            return False
        return info.serves(self.weights, policy.model, policy.version)

    def _routed(self) -> set[str]:
        """Names and URLs of engines that answer customers."""
        try:
            routes = json.loads(self.routes_file.read_text("utf-8"))
            return {
                str(track["url"]) for track in (routes["stable"], routes.get("canary")) if track
            }
        except FileNotFoundError:
            return {FIRST}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{self.routes_file} is no routing table, so it is not known which engine is spare"
            ) from error

    def _load(self, client: httpx.Client, url: str, policy: Policy) -> None:
        directory = (self.weights / policy.model / policy.version).resolve()
        if not (directory / "manifest.json").is_file():
            raise EngineError(
                f"there is no {policy.model} {policy.version} in the weight registry ({directory})"
            )
        EngineClient(http=client, url=url).load_weights(
            directory, policy.version, timeout_s=self.load_timeout_s
        )
