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

Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> EngineClient:
    http = httpx.Client(transport=httpx.MockTransport(handler))
    return EngineClient(http=http, url="http://engine")


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


def test_weights_are_named_by_an_absolute_path(tmp_path: Path) -> None:
    bodies = []

    def accept(request: httpx.Request) -> httpx.Response:
        bodies.append((request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={"success": True, "message": "ok"})

    client(accept).load_weights(tmp_path / "a" / ".." / "v1", "v1")
    sent = {"model_path": f"{tmp_path}/v1", "weight_version": "v1", "flush_cache": True}
    assert bodies == [("/update_weights_from_disk", sent)]


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
    tmp_path: Path, handler: Handler, error: type[EngineError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        client(handler).load_weights(tmp_path, "v1")
    assert type(raised.value) is error
