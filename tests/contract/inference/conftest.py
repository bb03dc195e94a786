"""Engines under the contract: the embedded worker with both decoders, and a real SGLang if given.

`ATDP_TEST_ENGINE_URL` is the address of a running SGLang, `ATDP_TEST_ENGINE_TOKEN` its api-key and
admin-api-key, and `ATDP_TEST_ENGINE_MODELS` a folder that it can read, made by
`python -m atdp.trainer.testing FOLDER`. `make test-sglang` does all of that.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from atdp.inference.worker.app import create_app
from atdp.inference.worker.worker_state import WorkerOptions
from atdp.trainer.testing import EngineUnderTest, Reference, make_tiny_models, served

REAL = os.environ.get("ATDP_TEST_ENGINE_URL")
TOKEN = os.environ.get("ATDP_TEST_ENGINE_TOKEN") or "5e" * 32


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of this folder runs against every engine."""
    if "engine_kind" in metafunc.fixturenames:
        kinds: list[Any] = ["light", "transformers"]
        if REAL:
            kinds.append(pytest.param("sglang", marks=pytest.mark.sglang))
        metafunc.parametrize("engine_kind", kinds, scope="session")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    given = os.environ.get("ATDP_TEST_ENGINE_MODELS")
    if REAL and given:
        return Path(given)
    folder = tmp_path_factory.mktemp("models")
    make_tiny_models(folder)
    return folder


@pytest.fixture(scope="session")
def token() -> str:
    return TOKEN


@pytest.fixture(scope="session")
def server(
    engine_kind: str, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if engine_kind == "sglang":
        assert REAL is not None
        yield REAL
        return
    options = WorkerOptions(
        token=TOKEN,
        roots=(tmp_path_factory.getbasetemp(),),
        model_dir=models / "first",
        decoder=engine_kind,  # type: ignore[arg-type]
        seed=7,
    )
    with served(create_app(options)) as url:
        yield url


@pytest.fixture
def engine(engine_kind: str, server: str, models: Path) -> Iterator[EngineUnderTest]:
    """The engine, serving the first model as version `first`."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server, headers=headers, timeout=120) as http:
        client = EngineUnderTest(engine_kind, http, models / "first", models / "second")
        client.post("/continue_generation")
        client.serve(client.first, "first")
        yield client


@pytest.fixture(scope="session")
def reference(models: Path) -> Reference:
    return Reference(models / "first")
