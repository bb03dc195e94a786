"""The ports of effects over HTTP: engines by SGLang's API, routes by the gateway's `/v1/routes`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from atdp.control.effects import RouteTable
from atdp.control.errors import EffectFailed, EngineNotAnswering
from atdp.inference import EngineClient, EngineError

RegisteredDigest = Callable[[str, str], str | None]
"""Returns the digest with which a version (model, version) was registered; None when it was not."""

Endpoints = Callable[[], Mapping[str, str]]
"""Returns the current addresses of the stack's services; ports change when a stack is restarted."""

_ROUTES_TIMEOUT_S = 10.0
"""Longest wait for the gateway, which answers without waiting for an engine."""


class HttpFleet:
    """Engines that speak SGLang's HTTP (`/model_info`, `/update_weights_from_disk`)."""

    def __init__(
        self,
        client: httpx.Client,
        endpoints: Endpoints,
        weights: Path,
        *,
        registered: RegisteredDigest,
        token: str,
        load_timeout_s: float = 120.0,
    ) -> None:
        """Use the engines of `endpoints`.

        `weights` is the weight registry's root; engines must see it under the same path. `token` is
        that of the home's engines.
        """
        self._client = client
        self._endpoints = endpoints
        self._weights = weights
        self._registered = registered
        self._token = token
        self._load_timeout_s = load_timeout_s

    def serves(self, engine: str, model: str, version: str) -> bool:
        """See `Fleet`."""
        try:
            info = self._engine(engine).info()
        except EngineError as error:
            raise EngineNotAnswering(str(error)) from error
        return info.serves(self._weights, model, version, self._registered(model, version))

    def load(self, engine: str, model: str, version: str) -> None:
        """See `Fleet`."""
        digest = self._registered(model, version)
        if digest is None:
            raise EffectFailed(f"{model} {version} was never registered, so its digest is unknown")
        try:
            self._engine(engine).load_weights(
                self._weights / model / version,
                version,
                expected_sha256=digest,
                timeout_s=self._load_timeout_s,
            )
        except EngineError as error:
            raise EffectFailed(f"{engine}: {error}") from error

    def _engine(self, engine: str) -> EngineClient:
        url = self._endpoints().get(engine)
        if url is None:
            raise EngineNotAnswering(f"the stack has no {engine}; start it with `atdp up`")
        return EngineClient(http=self._client, url=url.rstrip("/"), token=self._token)


class HttpRouter:
    """The gateway's routing table.

    Engines are named and not addressed, so that the table stays valid after a restart.
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
        try:
            response = self._client.put(
                f"{gateway.rstrip('/')}/v1/routes",
                json=_routes_json(table),
                headers={"authorization": f"Bearer {self._api_key}"},
                timeout=_ROUTES_TIMEOUT_S,
            )
        except httpx.HTTPError as error:
            raise EffectFailed(
                f"the gateway at {gateway} did not answer ({error!r}); "
                "`atdp status` shows whether the stack is running"
            ) from error
        if response.is_error:
            raise EffectFailed(
                f"the gateway at {gateway} refused the routes: "
                f"{response.status_code} {response.text[:300]}"
            )


def _routes_json(table: RouteTable) -> dict[str, object]:
    canary = table.canary
    routes: dict[str, object] = {
        "stable": {"url": table.stable.engine, "version": table.stable.version},
        "canary": None,
    }
    if canary is not None:
        routes["canary"] = {
            "url": canary.serving.engine,
            "version": canary.serving.version,
            "share": canary.share,
            "salt": canary.salt,
        }
    return routes
