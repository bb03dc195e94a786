"""An engine obeys nobody without the token, and the worker loads only what was published."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from atdp.inference import (
    EngineClient,
    EngineConnectionError,
    EngineError,
    bearer,
    read_weights_manifest,
    write_weights_manifest,
)
from atdp.inference.worker.app import create_app
from atdp.inference.worker.worker_state import WorkerOptions
from atdp.trainer.testing import EngineUnderTest

ROUTES = [
    ("GET", "/model_info"),
    ("GET", "/get_model_info"),
    ("GET", "/server_info"),
    ("GET", "/get_server_info"),
    ("GET", "/v1/models"),
    ("POST", "/generate"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/update_weights_from_disk"),
    ("POST", "/pause_generation"),
    ("POST", "/continue_generation"),
    ("POST", "/abort_request"),
    ("POST", "/flush_cache"),
]
OPEN_IN_SGLANG = {"/health", "/ready", "/health_generate"}
"""Routes that SGLang answers without a key; of them, the worker answers only `/health`."""
PROMPT = {"input_ids": [10, 20], "sampling_params": {"max_new_tokens": 1}}


@pytest.fixture
def embedded(engine: EngineUnderTest) -> EngineUnderTest:
    """The engine under test, where it is an embedded worker."""
    if engine.kind == "sglang":
        pytest.skip("SGLang loads any path that a holder of its key names; its clients verify it")
    return engine


@pytest.fixture
def stranger(server: str) -> Iterator[httpx.Client]:
    """A client without the token."""
    with httpx.Client(base_url=server, timeout=60) as client:
        yield client


@pytest.mark.parametrize("token_of_stranger", ["", "0" * 64, "5e" * 31])
def test_no_route_answers_without_the_token(
    engine: EngineUnderTest, stranger: httpx.Client, token_of_stranger: str
) -> None:
    headers = bearer(token_of_stranger)
    body = {**PROMPT, "model_path": str(engine.second), "weight_version": "second"}
    for method, path in ROUTES:
        answer = stranger.request(method, path, json=body, headers=headers)
        assert answer.status_code == 401, path
    assert engine.http.get("/model_info").json()["weight_version"] == "first"
    assert engine.generate(**PROMPT)["output_ids"]


def test_the_platforms_client_is_refused_with_another_token_and_says_so(
    engine: EngineUnderTest, server: str
) -> None:
    with httpx.Client() as http:
        client = EngineClient(http=http, url=server, token="0" * 64)
        with pytest.raises(EngineConnectionError, match="refuses the token of this home"):
            client.info()


def test_the_list_of_routes_above_has_every_route_of_the_worker() -> None:
    app = create_app(WorkerOptions(token="t", roots=()))
    routes = {route.path for route in app.routes if isinstance(route, APIRoute)}
    app.state.worker.engine.close()
    assert routes == {path for _, path in ROUTES} | OPEN_IN_SGLANG


def test_only_probes_of_the_worker_need_no_token(
    embedded: EngineUnderTest, stranger: httpx.Client
) -> None:
    for path in ("/metrics", "/health_generate", "/ready", "/openapi.json", "/docs", "/no"):
        assert stranger.get(path).status_code == 401, path
    assert stranger.post("/health").status_code == 401
    assert stranger.get("/health").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil"])
def test_a_request_for_another_host_is_refused_with_the_token_too(
    embedded: EngineUnderTest, host: str
) -> None:
    for path in ("/model_info", "/health"):
        assert embedded.http.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:30000", "127.0.0.1:1", "[::1]:30000"])
def test_a_request_for_this_machine_is_answered(embedded: EngineUnderTest, host: str) -> None:
    assert embedded.http.get("/model_info", headers={"host": host}).status_code == 200


def refused_swap(engine: EngineUnderTest, **body: str) -> str:
    """Return the message of a swap that is refused and leaves the served weights."""
    before = engine.http.get("/model_info").json()
    answer = engine.http.post("/update_weights_from_disk", json=body)
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    assert engine.http.get("/model_info").json() == before
    assert engine.generate(**PROMPT)["meta_info"]["weight_version"] == "first"
    return str(answer.json()["message"])


def copied(model: Path, to: Path) -> Path:
    return Path(shutil.copytree(model, to))


def test_the_served_digest_is_that_of_the_weights(embedded: EngineUnderTest) -> None:
    digest = hashlib.sha256((embedded.first / "model.safetensors").read_bytes()).hexdigest()
    assert embedded.http.get("/model_info").json()["weights_sha256"] == digest


def test_a_swap_to_a_path_of_somebody_else_is_refused_with_one_answer(
    embedded: EngineUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.getbasetemp().parent
    answers = {
        refused_swap(embedded, model_path=path)
        for path in ("/etc", "/etc/passwd", "/no/such/file", "models", str(outside), "/\0")
    }
    assert len(answers) == 1


def test_a_version_is_not_served_under_another_name(embedded: EngineUnderTest) -> None:
    swap = {"model_path": str(embedded.second), "weight_version": "v999"}
    assert "names the version second" in refused_swap(embedded, **swap)


def test_a_swap_without_a_name_takes_that_of_the_manifest(embedded: EngineUnderTest) -> None:
    embedded.post("/update_weights_from_disk", model_path=str(embedded.second))
    assert embedded.http.get("/model_info").json()["weight_version"] == "second"


def test_a_name_cannot_be_changed_without_weights(embedded: EngineUnderTest) -> None:
    answer = embedded.http.post("/update_weight_version", json={"new_version": "v999"})
    assert answer.status_code == 404


def test_weights_that_differ_from_their_manifest_are_refused(
    embedded: EngineUnderTest, tmp_path: Path
) -> None:
    version = copied(embedded.second, tmp_path / "second")
    with (version / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"EVIL")
    assert "differs from the manifest" in refused_swap(embedded, model_path=str(version))


def test_weights_without_a_manifest_are_refused(embedded: EngineUnderTest, tmp_path: Path) -> None:
    version = copied(embedded.second, tmp_path / "second")
    (version / "manifest.json").unlink()
    assert "no published version" in refused_swap(embedded, model_path=str(version))


def test_weights_with_another_digest_than_the_caller_expects_are_refused(
    embedded: EngineUnderTest,
) -> None:
    swap = {"model_path": str(embedded.second), "weights_sha256": "0" * 64}
    assert "not the expected one" in refused_swap(embedded, **swap)


def test_a_name_that_was_served_is_refused_with_other_weights(
    embedded: EngineUnderTest, tmp_path: Path
) -> None:
    version = copied(embedded.second, tmp_path / "first")
    write_weights_manifest(version, {"model": "tiny", "version": "first"})
    assert "served with other weights before" in refused_swap(embedded, model_path=str(version))


def test_a_model_that_cannot_be_served_is_refused_without_its_path(
    embedded: EngineUnderTest, tmp_path: Path
) -> None:
    version = copied(embedded.second, tmp_path / "broken")
    (version / "model.safetensors").write_bytes(b"no tensors")
    write_weights_manifest(version, {"model": "tiny", "version": "broken"})
    message = refused_swap(embedded, model_path=str(version))
    assert "the worker's log has the reason" in message
    assert str(tmp_path) not in message


def test_the_platforms_client_refuses_weights_that_changed_on_the_disk(
    engine: EngineUnderTest, server: str, tmp_path: Path, token: str
) -> None:
    version = copied(engine.second, tmp_path / "second")
    expected = read_weights_manifest(version).weights_sha256
    (version / "model.safetensors").write_bytes(b"others")
    with httpx.Client() as http:
        client = EngineClient(http=http, url=server, token=token)
        with pytest.raises(EngineError, match="have the digest"):
            client.load_weights(version, "second", expected_sha256=expected)
        assert client.info().weight_version == "first"
