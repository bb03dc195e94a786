"""The effects' ports over HTTP: SGLang's API for engines, the gateway's `PUT /v1/routes` for routes."""

from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from atdp.control.effects import RouteTable
from atdp.control.errors import EffectFailed, EngineSilent
from atdp.inference import EngineError, engine_info

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
            return engine_info(self._client, self._url(engine)).serves(
                self._weights, model, version
            )
        except EngineError as error:
            raise EngineSilent(str(error)) from error

    def load(self, engine: str, model: str, version: str) -> None:
        """See `Fleet`."""
        url = self._url(engine)
        directory = (self._weights / model / version).resolve()
        body = {"model_path": str(directory), "weight_version": version, "flush_cache": True}
        try:
            response = self._client.post(
                f"{url}/update_weights_from_disk", json=body, timeout=self._load_timeout_s
            )
            answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise EffectFailed(f"{engine} at {url} did not take {version}: {error!r}") from error
        if response.status_code != httpx.codes.OK or not answer.get("success"):
            raise EffectFailed(
                f"{engine} at {url} did not take {version}: {answer.get('message', answer)}"
            )

    def _url(self, engine: str) -> str:
        url = self._endpoints().get(engine)
        if url is None:
            raise EngineSilent(f"the stack has no {engine}; start it with `atdp up`")
        return url.rstrip("/")


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
