"""The effects' ports over HTTP: SGLang's API for engines, the gateway's `PUT /v1/routes` for routes."""

from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from atdp.control.effects import RouteTable
from atdp.control.errors import EffectFailed, EngineNotAnswering
from atdp.inference import EngineClient, EngineError

Endpoints = Callable[[], Mapping[str, str]]
"""Where the services of the stack are now; ports change when a stack is started anew."""


class HttpFleet:
    """Engines that speak SGLang's HTTP (`/model_info`, `/update_weights_from_disk`)."""

    def __init__(
        self,
        client: httpx.Client,
        endpoints: Endpoints,
        weights: Path,
        *,
        load_timeout_s: float = 120.0,
    ) -> None:
        """`weights` is the weight registry's root; engines must see it under the same path."""
        self._client = client
        self._endpoints = endpoints
        self._weights = weights
        self._load_timeout_s = load_timeout_s

    def serves(self, engine: str, model: str, version: str) -> bool:
        """See `Fleet`."""
        try:
            info = self._engine(engine).info()
        except EngineError as error:
            raise EngineNotAnswering(str(error)) from error
        return info.serves(self._weights, model, version)

    def load(self, engine: str, model: str, version: str) -> None:
        """See `Fleet`."""
        directory = self._weights / model / version
        try:
            self._engine(engine).load_weights(directory, version, timeout_s=self._load_timeout_s)
        except EngineError as error:
            raise EffectFailed(f"{engine}: {error}") from error

    def _engine(self, engine: str) -> EngineClient:
        url = self._endpoints().get(engine)
        if url is None:
            raise EngineNotAnswering(f"the stack has no {engine}; start it with `atdp up`")
        return EngineClient(http=self._client, url=url.rstrip("/"))


class HttpRouter:
    """The gateway's table.

    Engines are named, not addressed, so that the table outlives a restart.
    """

    def __init__(self, client: httpx.Client, endpoints: Endpoints, api_key: str) -> None:
        self._client = client
        self._endpoints = endpoints
        self._api_key = api_key

    def put(self, table: RouteTable) -> None:
        """See `Router`."""
        gateway = self._endpoints().get("gateway")
        if gateway is None:
            raise EffectFailed("the stack has no gateway; start it with `atdp up`")
        canary = table.canary
        body = {
            "stable": {"url": table.stable.engine, "version": table.stable.version},
            "canary": canary
            and {
                "url": canary.serving.engine,
                "version": canary.serving.version,
                "share": canary.share,
                "salt": canary.salt,
            },
        }
        try:
            response = self._client.put(
                f"{gateway.rstrip('/')}/v1/routes",
                json=body,
                headers={"authorization": f"Bearer {self._api_key}"},
                timeout=10.0,
            )
        except httpx.HTTPError as error:
            raise EffectFailed(
                f"the gateway at {gateway} did not answer ({error!r}); is the stack running? `atdp status` tells"
            ) from error
        if response.is_error:
            raise EffectFailed(
                f"the gateway at {gateway} refused the routes: {response.status_code} {response.text[:300]}"
            )
