"""What the stack consists of: each service's command, port, probe and place in the order.

The broker comes first, everything that talks to it after it answered and its topics exist. Stopping
goes the other way, wave by wave: first the gateway, which lets events in, then those that move them
on, the broker last.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from atdp.runtime import Home

WAITS_FOR_WEIGHTS = frozenset({"inference-0", "inference-1"})
"""Alive without weights on a fresh home; that they are not ready then is no fault of the stack."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What one look at a service showed. `live` False asks for a restart when it lasts."""

    live: bool
    ready: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Service:
    """One process of the stack.

    `command` is asked at every start (it may prepare things and raise a StackError). `on_ready`
    runs once, when the service is ready for the first time and before those that come `after` it
    start. `wave` orders stopping, highest first.
    """

    name: str
    command: Callable[[], Sequence[str]]
    probe: Callable[[], Probe]
    log: Path
    port: int | None = None
    after: tuple[str, ...] = ()
    wave: int = 1
    stop_grace_s: float = 20.0
    when_orphaned: signal.Signals = signal.SIGTERM
    needed: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    on_ready: Callable[[], None] = lambda: None
    log_tail: Callable[[], str] | None = None


_MODULES = {
    "governance": "atdp.governance.worker",
    "lake-writer": "atdp.lakehouse.writer",
    "inference-0": "atdp.inference.worker",
    "inference-1": "atdp.inference.worker",
    "gateway": "atdp.stack.gateway",
}


def service_names() -> tuple[str, ...]:
    """The Python services in starting order."""
    return tuple(_MODULES)


def python_services(home: Home, ports: Mapping[str, int], after: tuple[str, ...]) -> list[Service]:
    """The Python services of a home, each `python -m MODULE --home … --port … --name …`."""
    services = []
    for name, module in _MODULES.items():
        command = [
            sys.executable,
            "-m",
            module,
            "--home",
            str(home.root),
            "--port",
            str(ports[name]),
            "--name",
            name,
        ]
        services.append(
            Service(
                name=name,
                command=lambda command=command: command,  # type: ignore[misc]
                probe=lambda port=ports[name]: probe_http(port),  # type: ignore[misc]
                log=home.logs / f"{name}.log",
                port=ports[name],
                after=() if name in WAITS_FOR_WEIGHTS else after,
                wave=2 if name == "gateway" else 1,
                needed=name not in WAITS_FOR_WEIGHTS,
            )
        )
    return services


def service_environment(home: Home, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of every service: the caller's, with the home and the supervisor's process id."""
    return {
        # glibc gives each thread an arena of its own; two keep idle services small at no cost
        # measured here.
        "MALLOC_ARENA_MAX": "2",
        **environ,
        "ATDP_HOME": str(home.root),
        "ATDP_PARENT_PID": str(os.getpid()),
    }


def probe_http(port: int, timeout_s: float = 3.0) -> Probe:
    """Look at `/healthz` and `/readyz` of a service on this machine.

    By `http.client`: it is asked every second for as long as the stack lives, and costs a tenth of
    a richer client.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        for path, live in (("/healthz", False), ("/readyz", True)):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != HTTPStatus.OK:
                return Probe(live=live, ready=False, reason=_why(path, answer.status, body))
        return Probe(live=True, ready=True)
    except ConnectionRefusedError:
        return Probe(live=False, ready=False, reason="not listening yet")
    except (OSError, HTTPException) as error:
        return Probe(live=False, ready=False, reason=f"does not answer ({type(error).__name__})")
    finally:
        connection.close()


def _why(path: str, status: int, body: bytes) -> str:
    try:
        failing = json.loads(body)["failing"]
        said = [
            str(text) if name == "state" else f"{name}: {text}" for name, text in failing.items()
        ]
    except (ValueError, AttributeError, KeyError, TypeError):
        said = []
    return "; ".join(said) or f"{path} answers {status}"
