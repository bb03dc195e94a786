"""What an engine says that it serves: SGLang's `/model_info`.

A version's name alone says little, since every model has a `v1`. The engine also answers the path
that it loaded, which is the version's directory in the weight registry, whoever loaded it; weights
that are in no registry are known by the model's name.
"""

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx

from atdp.inference.errors import EngineError

_ANSWER_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """An engine that answers. Everything is None while it has no weights."""

    weight_version: str | None = None
    model_path: str | None = None
    served_model_name: str | None = None

    def serves(self, registry: Path, model: str, version: str) -> bool:
        """Whether it serves this version of this model.

        `registry` is the weight registry's root.
        """
        if self.weight_version != version:
            return False
        directory = registry / model / version
        if directory.is_dir():
            return (
                self.model_path is not None
                and Path(self.model_path).resolve() == directory.resolve()
            )
        return self.served_model_name == model


def engine_info(client: httpx.Client, url: str) -> EngineInfo:
    """Ask the engine at `url`.

    Raises `EngineError` when it does not answer; one without weights does (with 503).
    """
    try:
        response = client.get(f"{url}/model_info", timeout=_ANSWER_TIMEOUT_S)
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return EngineInfo()
        told = response.raise_for_status().json()
        texts = {
            name: told.get(name) for name in ("weight_version", "model_path", "served_model_name")
        }
    except (httpx.HTTPError, ValueError, AttributeError) as error:
        raise EngineError(f"the engine at {url} does not answer: {error!r}") from error
    return EngineInfo(**{name: value for name, value in texts.items() if isinstance(value, str)})
