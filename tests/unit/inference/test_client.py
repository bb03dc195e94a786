import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from atdp.inference import (
    EngineClient,
    EngineConnectionError,
    EngineError,
    EngineInfo,
    parse_engine_info,
)

TOKEN = "5e" * 32
DIGEST = hashlib.sha256(b"weights").hexdigest()
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> EngineClient:
    http = httpx.Client(transport=httpx.MockTransport(handler))
    return EngineClient(http=http, url="http://engine", token=TOKEN)


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """A version's directory with weights whose digest is `DIGEST`."""
    directory = tmp_path / "a" / "v1"
    directory.mkdir(parents=True)
    (directory / "model.safetensors").write_bytes(b"weights")
    return directory


def serving(**info: str) -> Handler:
    """An engine that takes any weights and then reports `info`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/model_info":
            return httpx.Response(200, json=info)
        return httpx.Response(200, json={"success": True, "message": "ok"})

    return answer


def unreachable(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def test_an_engine_without_weights_gives_an_empty_answer() -> None:
    assert client(lambda _: httpx.Response(503)).info() == EngineInfo()


@pytest.mark.parametrize(
    "handler",
    [unreachable, lambda _: httpx.Response(500), lambda _: httpx.Response(200, json=[1])],
    ids=["unreachable", "500", "list"],
)
def test_an_answer_that_is_not_sglangs_is_a_connection_error(handler: Handler) -> None:
    with pytest.raises(EngineConnectionError, match="http://engine does not answer"):
        client(handler).info()


def test_values_of_model_info_that_are_empty_or_no_text_are_none() -> None:
    document = {"weight_version": "v1", "tokenizer_hash": "", "model_path": 3, "other": "x"}
    assert parse_engine_info(document) == EngineInfo(weight_version="v1")


def test_weights_are_named_by_an_absolute_path_and_their_digest(version: Path) -> None:
    requests: list[httpx.Request] = []
    engine = serving(weight_version="v1", weights_sha256=DIGEST)

    def accept(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return engine(request)

    path = version / ".." / "v1"
    client(accept).load_weights(path, "v1", expected_sha256=DIGEST)
    assert [request.url.path for request in requests] == [
        "/update_weights_from_disk",
        "/model_info",
    ]
    assert json.loads(requests[0].content) == {
        "model_path": str(version),
        "weight_version": "v1",
        "weights_sha256": DIGEST,
        "flush_cache": True,
    }
    assert {request.headers["authorization"] for request in requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "info",
    [
        {"weight_version": "v1", "weights_sha256": "0" * 64},
        {"weight_version": "v0", "weights_sha256": DIGEST},
        {},
    ],
    ids=["other digest", "other version", "nothing"],
)
def test_an_engine_that_serves_something_else_afterwards_is_an_error(
    version: Path, info: dict[str, str]
) -> None:
    with pytest.raises(EngineError, match="took v1 but reports"):
        client(serving(**info)).load_weights(version, "v1", expected_sha256=DIGEST)


def test_an_engine_that_reports_no_digest_has_taken_weights_that_were_verified_here(
    version: Path,
) -> None:
    client(serving(weight_version="v1")).load_weights(version, "v1", expected_sha256=DIGEST)


def test_weights_with_another_digest_are_not_offered_to_the_engine(version: Path) -> None:
    (version / "model.safetensors").write_bytes(b"others")
    with pytest.raises(EngineError, match="have the digest") as raised:
        client(unreachable).load_weights(version, "v1", expected_sha256=DIGEST)
    assert type(raised.value) is EngineError


@pytest.mark.parametrize("status", [401, 403])
def test_an_engine_that_refuses_the_token_is_reported_so_and_the_token_is_not_shown(
    version: Path, status: int
) -> None:
    engine = client(lambda _: httpx.Response(status, json={"error": "Unauthorized"}))
    for call in (
        engine.info,
        lambda: engine.score([[1, 2]]),
        lambda: engine.load_weights(version, "v1", expected_sha256=DIGEST),
    ):
        with pytest.raises(EngineConnectionError, match=r"refuses the token .*engine\.key") as no:
            call()
        assert TOKEN not in str(no.value)
    assert TOKEN not in repr(engine)


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        (
            lambda _: httpx.Response(400, json={"success": False, "message": "no such folder"}),
            EngineError,
            "did not take v1: no such folder",
        ),
        (unreachable, EngineConnectionError, "did not take v1: ConnectError"),
        (lambda _: httpx.Response(200, text="<html>"), EngineConnectionError, "did not take v1"),
        (lambda _: httpx.Response(200, json=[]), EngineConnectionError, "did not take v1"),
    ],
    ids=["refused", "unreachable", "html", "list"],
)
def test_weights_that_were_not_loaded_are_an_error(
    version: Path, handler: Handler, error: type[EngineError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        client(handler).load_weights(version, "v1", expected_sha256=DIGEST)
    assert type(raised.value) is error
