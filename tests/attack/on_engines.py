"""Attacks on the inference workers: weights and names of somebody else."""

from pathlib import Path

import httpx

from .target import Target, as_another_user

SWAP = {"model_path": "/tmp", "weight_version": "v999"}
NO_TOKEN = "0" * 64


def swap_without_a_token(target: Target) -> str | None:
    """Load other weights without the token of the home."""
    with target.http("inference-0", NO_TOKEN) as engine:
        answer = engine.post("/update_weights_from_disk", json=SWAP)
    return _unless(answer, 401)


def swap_to_any_path(target: Target) -> str | None:
    """Load weights from a path that the registry does not have, with the token."""
    told = set()
    with target.http("inference-0", _token(target)) as engine:
        for path in ("/etc", "/etc/passwd", "/no/such/file"):
            answer = engine.post("/update_weights_from_disk", json={**SWAP, "model_path": path})
            if answer.is_success:
                return f"{path} was loaded"
            told.add(answer.text)
    return None if len(told) == 1 else "the answers tell which paths exist"


def ask_as_another_host(target: Target) -> str | None:
    """Reach the worker from a web page, by a name that its owner lets point to this machine."""
    with target.http("inference-0", _token(target)) as engine:
        answer = engine.get("/model_info", headers={"Host": "evil.example"})
    return _unless(answer, 421)


def read_the_token(target: Target) -> str | None:
    """Read the token as another local user."""
    return read_as_another_user(str(target.home.engine_token_file))


def read_as_another_user(path: str) -> str | None:
    """Return what another local user could read of a file; None: nothing."""

    def read() -> int:
        return len(Path(path).read_bytes())

    try:
        return f"{as_another_user(read)} bytes read"
    except PermissionError:
        return None


def _token(target: Target) -> str:
    return target.home.engine_token_file.read_text("utf-8").strip()


def _unless(answer: httpx.Response, expected: int) -> str | None:
    if answer.status_code == expected:
        return None
    return f"answered {answer.status_code}: {answer.text[:80]}"


ATTACKS = (swap_without_a_token, swap_to_any_path, ask_as_another_host, read_the_token)
