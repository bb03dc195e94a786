"""Attacks by slow, large and many requests."""

import socket
import time
from urllib.parse import urlsplit

from .target import Target

_HEADERS = 1 << 20


def send_a_huge_header(target: Target) -> str | None:
    """Send a megabyte of headers to the gateway."""
    with _connection(target) as connection:
        connection.settimeout(20)
        try:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n")
            for _ in range(_HEADERS // 1024):
                connection.sendall(b"X-A: " + b"a" * 1017 + b"\r\n")
            connection.sendall(b"\r\n")
            answer = connection.recv(100)
        except OSError:
            return None
    return f"answered {answer[:40]!r}" if answer.startswith(b"HTTP/1.1 2") else None


def hold_connections_open(target: Target) -> str | None:
    """Open a hundred connections that never finish a request, while others ask the gateway."""
    held = [_connection(target) for _ in range(100)]
    try:
        for connection in held:
            connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: here\r\n")
        began_s = time.monotonic()
        with target.http("gateway") as client:
            answer = client.get("/healthz")
        seconds = time.monotonic() - began_s
    finally:
        for connection in held:
            connection.close()
    if answer.status_code == 200 and seconds < 10:
        return None
    return f"the gateway answered {answer.status_code} after {seconds:.0f} s"


def _connection(target: Target) -> socket.socket:
    address = urlsplit(target.address("gateway"))
    return socket.create_connection((str(address.hostname), int(address.port or 80)), 20)


ATTACKS = (send_a_huge_header, hold_connections_open)
