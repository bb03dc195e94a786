"""The inference worker as a process: it starts empty, takes and keeps weights, and drains."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
import torch

from atdp.trainer.testing import make_tiny_models


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    first, _ = make_tiny_models(tmp_path_factory.mktemp("models"))
    return first


@contextmanager
def worker(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A running worker; killed at the end if it is still there."""
    announced = home / "run" / "inference-0.json"
    announced.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "atdp.inference.worker",
        "--home",
        str(home),
        "--port",
        "0",
        *arguments,
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not announced.exists():
            assert process.poll() is None, "the worker stopped while starting"
            assert time.monotonic() < deadline, "the worker did not announce itself"
            time.sleep(0.05)
        with httpx.Client(base_url=json.loads(announced.read_text())["url"], timeout=60) as http:
            yield process, http
    finally:
        process.kill()
        process.wait(60)


def test_a_worker_starts_without_a_model_and_becomes_ready_with_its_first_weights(
    tmp_path: Path, model: Path
) -> None:
    with worker(tmp_path) as (_, http):
        assert http.get("/healthz").status_code == 200
        assert http.get("/readyz").status_code == 503
        assert "no model loaded" in http.get("/readyz").text
        assert http.post("/generate", json={"text": "a"}).status_code == 503
        assert http.get("/v1/models").json() == {"object": "list", "data": []}
        swap = {"model_path": str(model), "weight_version": "v1"}
        assert http.post("/update_weights_from_disk", json=swap).json()["success"]
        assert http.get("/readyz").status_code == 200
        assert 'atdp_inference_weights{version="v1"} 1.0' in http.get("/metrics").text


def test_a_worker_that_was_killed_comes_back_with_the_weights_it_served(
    tmp_path: Path, model: Path
) -> None:
    with worker(tmp_path) as (process, http):
        http.post(
            "/update_weights_from_disk", json={"model_path": str(model), "weight_version": "v7"}
        )
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    with worker(tmp_path) as (_, http):
        assert http.get("/model_info").json()["weight_version"] == "v7"


def test_a_worker_whose_weights_are_gone_starts_empty_instead_of_failing(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    state = {"model_path": str(tmp_path / "gone"), "weight_version": "v1"}
    (tmp_path / "run" / "inference-0.weights.json").write_text(json.dumps(state))
    with worker(tmp_path) as (_, http):
        assert http.get("/readyz").status_code == 503


def test_a_term_signal_stops_the_worker_in_good_order(tmp_path: Path, model: Path) -> None:
    with worker(tmp_path, "--model-dir", str(model)) as (process, http):
        assert http.get("/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_worker_does_not_load_torch_for_a_small_model(tmp_path: Path, model: Path) -> None:
    with worker(tmp_path, "--model-dir", str(model)) as (process, http):
        http.post("/generate", json={"text": "hello", "sampling_params": {"max_new_tokens": 8}})
        libraries = {
            Path(mapping.path).name for mapping in psutil.Process(process.pid).memory_maps()
        }
        assert not any(name.startswith("libtorch") for name in libraries)


def test_a_directory_that_holds_no_model_ends_the_worker_with_a_message(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "atdp.inference.worker",
        "--home",
        str(tmp_path),
        "--model-dir",
        str(tmp_path / "no"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert done.returncode == 2
    assert "is not a directory on this machine" in done.stderr
