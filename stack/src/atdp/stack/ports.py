"""Loopback ports that a home keeps between runs.

Agents are configured with the gateway's address and the broker's data knows its controller's, so a
port once chosen stays. It is chosen below the range from which the system draws source ports of
outgoing connections (32768 and up on Linux): nothing else picks such a port by chance while the
stack is down. From the choice to the end of the process that chose, a lock keeps other stacks of
the user, which may be starting at the same time, from choosing it too: a server binds it only
seconds later. When another process has taken a kept port, that is an error with advice, not a
silent move to another one.
"""

import errno
import fcntl
import json
import os
import random
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from atdp.stack.errors import HomeUnusable, PortTaken

LOOPBACK = "127.0.0.1"
_RANGE = range(20_000, 32_000)
_reserved: dict[int, int] = {}  # port → descriptor of its lock, held until the process ends


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def is_listening(port: int, timeout_s: float = 0.5) -> bool:
    """Tell whether something accepts connections on this loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_s)
        return probe.connect_ex((LOOPBACK, port)) == 0


def choose_free_port(taken: frozenset[int] = frozenset()) -> int:
    """Pick a free port at random, none of `taken`."""
    generator = random.SystemRandom()
    for _ in range(1_000):
        port = generator.choice(_RANGE)
        if port not in taken and is_free(port) and _reserve(port):
            return port
    raise PortTaken(
        f"No free port between {_RANGE.start} and {_RANGE.stop} on {LOOPBACK}. Stop some servers."
    )


def _reserve(port: int) -> bool:
    """Lock a port against other processes' choices; false when one has chosen it.

    Without a place for locks, true.
    """
    if port in _reserved:
        return False
    folder = Path(tempfile.gettempdir()) / f"atdp-ports-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _reserved[port] = lock
    return True


class KeptPorts:
    """The ports of one home by name, in one JSON file."""

    def __init__(self, file: Path) -> None:
        """`file` need not exist yet."""
        self._file = file

    def read(self) -> dict[str, int]:
        """Give what has been chosen so far."""
        try:
            return {
                str(name): int(port)
                for name, port in json.loads(self._file.read_text(encoding="utf-8")).items()
            }
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, TypeError) as error:
            raise HomeUnusable(
                f"{self._file} is not a JSON object of ports ({error}). Remove it; ports are chosen anew."
            ) from error

    def claim(self, *names: str) -> dict[str, int]:
        """Give each name its port, choosing and storing those not known yet.

        Raises PortTaken for one in use.
        """
        ports = self.read()
        self.require_free({name: ports[name] for name in names if name in ports})
        for name in names:
            if name not in ports:
                ports[name] = choose_free_port(frozenset(ports.values()))
        self._store(ports)
        return {name: ports[name] for name in names}

    def require_free(self, ports: Mapping[str, int]) -> None:
        """Raise PortTaken when one of these ports, chosen earlier, is in use."""
        for name, port in ports.items():
            if not is_free(port):
                raise PortTaken(
                    f"Port {port}, which `{name}` of this home has used so far, is taken by another process. "
                    f"Stop that process, or remove `{name}` from {self._file} and start the stack again to "
                    "have another port chosen."
                )

    def set(self, name: str, port: int) -> None:
        """Fix the port of `name`."""
        self._store({**self.read(), name: port})

    def _store(self, ports: dict[str, int]) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial = self._file.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps(ports, indent=1) + "\n", encoding="utf-8")
            partial.replace(self._file)
        except OSError as error:
            raise HomeUnusable(
                f"Cannot write {self._file}: {error.strerror or error}. Free some space, or set ATDP_HOME to "
                "a folder you may write."
            ) from error
