"""The guard of a hermetic replay: this process reaches the engine and nothing else.

It is an audit hook of the interpreter (PEP 578) and not a replaced `socket.socket`, as test
libraries install it: the interpreter itself raises the audit event before each connection, so that
code which imported the socket module earlier, or uses `_socket`, is refused too. New processes are
refused as well, because they would have no hook. Native code that opens sockets without Python is
not seen; a replay calls none, since it executes no tool and has read the lake before the guard
begins.

The hook cannot be removed; it is installed once and does nothing outside of `only_engine`. Inside,
it holds for all threads of the process, so a replay has a process of its own (`atdp replay …`).
"""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from atdp.replay.engine_address import host_and_port
from atdp.replay.errors import HermeticError, NoEngineError

_WITH_ADDRESS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_REFUSED: Final = frozenset(
    {
        "socket.bind",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "pty.spawn",
    }
)
_LOOKUPS: Final = frozenset(
    {
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
    }
)


@dataclass(slots=True)
class _Guard:
    """The state of the process's guard."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    installed: bool = False
    active: bool = False
    hosts: frozenset[str] = frozenset()
    addresses: frozenset[tuple[str, int]] = frozenset()

    def check(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse what a hermetic replay may not do; called by the interpreter."""
        if not self.active:
            return
        if event in _REFUSED:
            raise HermeticError(f"a hermetic replay does not do this: {event}")
        if event in _LOOKUPS and str(arguments[0]) not in self.hosts:
            raise HermeticError("a hermetic replay looks up no host but the engine's")
        if event in _WITH_ADDRESS and not self._is_engine(arguments[1]):
            raise HermeticError("a hermetic replay connects to no address but the engine's")

    def _is_engine(self, address: object) -> bool:
        if address is None:
            return True  # a message on a socket that is connected already
        return isinstance(address, tuple) and address[:2] in self.addresses


_guard = _Guard()


@contextmanager
def only_engine(*urls: str) -> Iterator[None]:
    """Let this process reach only the engines at `urls` until the block ends.

    Raises:
        NoEngineError: the host of an engine is unknown.
        HermeticError: another hermetic replay runs in this process.
    """
    hosts, addresses = set(), set()
    for url in urls:
        host, port = host_and_port(url)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise NoEngineError(f"the host of the engine {url} is unknown: {error}") from error
        addresses |= {(str(entry[4][0]), port) for entry in found}
        hosts |= {host, *(str(entry[4][0]) for entry in found)}
    if not _guard.lock.acquire(blocking=False):
        raise HermeticError(
            "another hermetic replay runs in this process; start one after the other"
        )
    try:
        if not _guard.installed:
            sys.addaudithook(_guard.check)
            _guard.installed = True
        _guard.hosts, _guard.addresses = frozenset(hosts), frozenset(addresses)
        _guard.active = True
        yield
    finally:
        _guard.active = False
        _guard.lock.release()
