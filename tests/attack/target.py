"""The stack that is attacked, and its attackers: holders of keys, and another local user."""

import contextlib
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import httpx

from atdp.lakehouse import connect
from atdp.runtime import Home, KeyStore
from atdp.runtime.keys import ApiKey

TENANT, RIVAL = "acme", "rival"
_NOBODY = 65534
_TIMEOUT_S = 60.0
_T = TypeVar("_T")


class NotTried(Exception):
    """This machine does not allow the attack; the text says why."""


@dataclass(frozen=True)
class Target:
    """A running stack. Its home serves to prepare attacks and to see what they achieved."""

    home: Home

    @cached_property
    def agent(self) -> ApiKey:
        """An agent's key of TENANT."""
        return self.key(TENANT, "agent")

    @cached_property
    def rival(self) -> ApiKey:
        """An agent's key of RIVAL."""
        return self.key(RIVAL, "agent")

    def key(self, tenant: str, role: str) -> ApiKey:
        """Return a new key."""
        with KeyStore(self.home.keys_db) as keys:
            return keys.create(tenant, role)[0]

    def address(self, service: str) -> str:
        """Return the address that the stack published for a service."""
        return self.home.endpoints()[service]

    def http(self, service: str, key: str = "") -> httpx.Client:
        """Return a client of a service, with a key or without any."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        address = self.address(service)
        return httpx.Client(base_url=address, headers=headers, timeout=_TIMEOUT_S, trust_env=False)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of a statement over everything in the lake."""
        with connect(self.home) as connection:
            return connection.sql(statement).dicts()


def as_another_user(attack: Callable[[], _T]) -> _T:
    """Return the result of a function that runs as another local user, in a process of its own.

    Raises:
        NotTried: this user may not become another one.
        OSError: the attack ended with this error.
    """
    if os.geteuid() != 0:
        raise NotTried("needs root, to become another local user")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer_as_nobody(attack, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    result = pickle.loads(answer)
    if isinstance(result, OSError | NotTried):
        raise result
    assert isinstance(result, tuple), result
    return cast("_T", result[0])


def _answer_as_nobody(attack: Callable[[], object], writing: int) -> None:
    answer: object = NotTried("this machine lets nobody become another local user")
    try:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
        if os.getuid() == _NOBODY:
            answer = (attack(),)
    except OSError as error:
        answer = error
    finally:
        os.write(writing, pickle.dumps(answer))
        os._exit(0)
