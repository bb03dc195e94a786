"""The inference worker as a process: it starts empty, takes and keeps weights, and drains."""

import json
import os
import shutil
import signal
import stat
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

from atdp.inference import bearer, load_engine_token, write_weights_manifest
from atdp.runtime import Home
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
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while not announced.exists():
            assert process.poll() is None, "the worker stopped while starting"
            assert time.monotonic() < deadline, "the worker did not announce itself"
            time.sleep(0.05)
        url, token = json.loads(announced.read_text())["url"], load_engine_token(Home(home))
        with httpx.Client(base_url=url, headers=bearer(token), timeout=60) as http:
            yield process, http
    finally:
        process.kill()
        process.wait(60)


def test_a_worker_starts_without_a_model_and_becomes_ready_with_its_first_weights(
    tmp_path: Path, model: Path
) -> None:
    with worker(tmp_path, *root_of(model)) as (_, http):
        assert http.get("/healthz").status_code == 200
        assert http.get("/readyz").status_code == 503
        assert "no model loaded" in http.get("/readyz").text
        assert http.post("/generate", json={"text": "a"}).status_code == 503
        assert http.get("/v1/models").json() == {"object": "list", "data": []}
        assert swap(http, model, "first").json()["success"]
        assert http.get("/readyz").status_code == 200
        assert 'atdp_inference_weights{version="first"} 1.0' in http.get("/metrics").text


def root_of(model: Path) -> tuple[str, str]:
    return "--weights-root", str(model.parent)


def serving(model: Path) -> tuple[str, ...]:
    return *root_of(model), "--model-dir", str(model)


def swap(http: httpx.Client, model: Path, version: str) -> httpx.Response:
    body = {"model_path": str(model), "weight_version": version}
    return http.post("/update_weights_from_disk", json=body)


def test_a_worker_that_was_killed_comes_back_with_the_weights_it_served(
    tmp_path: Path, model: Path
) -> None:
    with worker(tmp_path, *root_of(model)) as (process, http):
        assert swap(http, model, "first").json()["success"]
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    with worker(tmp_path, *root_of(model)) as (_, http):
        assert http.get("/model_info").json()["weight_version"] == "first"


def test_weights_that_changed_meanwhile_are_not_served_after_a_restart_under_any_manifest(
    tmp_path: Path, model: Path
) -> None:
    own = tmp_path / "weights" / "tiny" / "first"
    shutil.copytree(model, own)
    with worker(tmp_path) as (_, http):
        assert swap(http, own, "first").json()["success"]
    shutil.copyfile(model.parent / "second" / "model.safetensors", own / "model.safetensors")
    with worker(tmp_path) as (_, http):
        assert http.get("/readyz").status_code == 503
        assert "differs from the manifest" in swap(http, own, "first").json()["message"]
    write_weights_manifest(own, {"model": "tiny", "version": "first"})
    with worker(tmp_path) as (_, http):
        assert http.get("/readyz").status_code == 503
        assert "served with other weights before" in swap(http, own, "first").json()["message"]
        assert http.get("/readyz").status_code == 503


def test_the_token_is_in_no_argument_no_environment_and_no_log(tmp_path: Path) -> None:
    token = load_engine_token(Home(tmp_path))
    with worker(tmp_path) as (process, http):
        assert http.get("/v1/models").status_code == 200
        assert httpx.get(http.base_url.join("/v1/models")).status_code == 401
        running = psutil.Process(process.pid)
        assert token not in " ".join(running.cmdline())
        assert token not in str(running.environ())
    assert token not in (tmp_path / "log").read_text()
    assert stat.S_IMODE(Home(tmp_path).engine_token_file.stat().st_mode) == 0o600


def test_a_worker_whose_weights_are_gone_starts_empty_instead_of_failing(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    state = {"model_path": str(tmp_path / "gone"), "weight_version": "v1"}
    (tmp_path / "run" / "inference-0.weights.json").write_text(json.dumps(state))
    with worker(tmp_path) as (_, http):
        assert http.get("/readyz").status_code == 503


def test_a_term_signal_stops_the_worker_in_good_order(tmp_path: Path, model: Path) -> None:
    with worker(tmp_path, *serving(model)) as (
        process,
        http,
    ):
        assert http.get("/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_worker_does_not_load_torch_for_a_small_model(tmp_path: Path, model: Path) -> None:
    with worker(tmp_path, *serving(model)) as (
        process,
        http,
    ):
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
    assert "no published version that this worker may load" in done.stderr
