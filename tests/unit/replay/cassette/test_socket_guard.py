"""A hermetic replay reaches the engine and nothing else, whatever code tries."""

import _socket
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from atdp.replay.cassette.socket_guard import only_engine
from atdp.replay.errors import HermeticError, NoEngineError


@pytest.fixture
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as engine,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        yield engine, other


def url_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_only_the_engine_can_be_reached_and_everything_again_afterwards(
    listeners: tuple[socket.socket, socket.socket],
) -> None:
    engine, other = listeners
    with only_engine(url_of(engine)):
        socket.create_connection(engine.getsockname()).close()
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as plain,
            pytest.raises(HermeticError, match="no address but the engine's"),
        ):
            plain.connect(other.getsockname())
    socket.create_connection(other.getsockname()).close()


def test_code_that_goes_round_the_socket_module_is_refused_too(
    listeners: tuple[socket.socket, socket.socket],
) -> None:
    engine, other = listeners
    with only_engine(url_of(engine)):
        raw = _socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        local = socket.socket(socket.AF_UNIX)
        try:
            with pytest.raises(HermeticError):
                raw.connect(other.getsockname())
            with pytest.raises(HermeticError):
                datagram.sendto(b"x", other.getsockname())
            with pytest.raises(HermeticError):
                local.connect("/tmp/no-such-socket")
            with pytest.raises(HermeticError):
                datagram.bind(("127.0.0.1", 0))
        finally:
            raw.close()
            datagram.close()
            local.close()


def test_no_other_host_is_looked_up(listeners: tuple[socket.socket, socket.socket]) -> None:
    with only_engine(url_of(listeners[0])), pytest.raises(HermeticError, match="no host"):
        socket.getaddrinfo("elsewhere.invalid", 80)


def test_no_process_is_started(listeners: tuple[socket.socket, socket.socket]) -> None:
    with only_engine(url_of(listeners[0])):
        with pytest.raises(HermeticError):
            subprocess.run([sys.executable, "-c", "pass"], check=True)
        with pytest.raises(HermeticError):
            os.system("true")
        with pytest.raises(HermeticError):
            os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], {})
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def test_two_replays_at_once_and_an_unknown_engine_are_refused(
    listeners: tuple[socket.socket, socket.socket],
) -> None:
    engine, other = map(url_of, listeners)
    with (
        only_engine(engine),
        pytest.raises(HermeticError, match="another hermetic replay"),
        only_engine(other),
    ):
        pass
    with pytest.raises(NoEngineError, match="is unknown"), only_engine("http://elsewhere.invalid"):
        pass
    with only_engine(other):
        pass
