"""Loading published weights into an inference server: SGLang or the embedded worker, by the same call."""

import httpx

from atdp.trainer.errors import TrainerError
from atdp.trainer.registry import Published


class WeightSyncError(TrainerError):
    """An inference server did not take a version; it goes on with the one it had."""


def load_into_engine(url: str, published: Published, *, timeout_s: float = 120.0) -> None:
    """Make the server at `url` serve `published`, and check that it says so.

    The path is checked first: a path that SGLang does not find it tries as the name of a model on
    the hub.
    """
    if not (published.path / "model.safetensors").is_file():
        raise WeightSyncError(
            f"{published.path} holds no weights; publish {published.model} {published.version} again"
        )
    body = {
        "model_path": str(published.path.resolve()),
        "weight_version": published.version,
        "flush_cache": True,
    }
    try:
        answer = httpx.post(f"{url}/update_weights_from_disk", json=body, timeout=timeout_s)
        told = answer.json()
        if answer.status_code != 200 or not told.get("success"):
            raise WeightSyncError(
                f"{url} refused {published.version}: {told.get('message', answer.text)}"
            )
        serves = httpx.get(f"{url}/model_info", timeout=timeout_s).json().get("weight_version")
    except (httpx.HTTPError, ValueError) as error:
        raise WeightSyncError(
            f"{url} cannot be reached ({error}); is the inference server running?"
        ) from error
    if serves != published.version:
        raise WeightSyncError(f"{url} took {published.version} but says that it serves {serves}")
