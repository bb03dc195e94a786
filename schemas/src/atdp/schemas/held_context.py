"""The context that a trajectory's events add up to, as their producer holds it.

A producer compares the context that a model is shown with the one held and sends the difference
(`atdp.schemas.context`). It need not hold the messages themselves: a key per message, such as a
digest, is enough to compare them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from atdp.schemas.canonical import canonical_sha256
from atdp.schemas.context import context_hash, contributed_messages, split_common_prefix
from atdp.schemas.values import Body, Message, Observation

K = TypeVar("K")


class HeldContext(Generic[K]):
    """The keys of the messages held so far, in order."""

    def __init__(self, key: Callable[[Message], K], keys: Sequence[K] = ()) -> None:
        """Hold `keys`; `key` gives equal keys for equal messages and no others."""
        self._key = key
        self._keys = list(keys)

    @property
    def keys(self) -> Sequence[K]:
        """The keys of the messages held, in order."""
        return self._keys

    def common_prefix(self, shown: Sequence[Message]) -> int:
        """Return how many messages at the start of `shown` are held already."""
        base, _ = split_common_prefix(self._keys, [self._key(message) for message in shown])
        return base

    def add(self, body: Body) -> None:
        """Fold the body of a recorded event in."""
        if isinstance(body, Observation) and body.context_base is not None:
            del self._keys[body.context_base :]
        self._keys.extend(self._key(message) for message in contributed_messages(body))

    def copy(self) -> "HeldContext[K]":
        """Return an independent context with the same keys."""
        return HeldContext(self._key, self._keys)


class SentTools:
    """The tool definitions that were sent, by hash, so that each set is sent in full only once."""

    def __init__(self, *, remember_all: bool) -> None:
        """Remember every set that was sent, or only the newest one, to bound the memory."""
        self._remember_all = remember_all
        self._sent: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any definitions were sent."""
        return bool(self._sent)

    def is_new(self, tools_hash: str) -> bool:
        """Return whether the definitions have to be sent in full, and remember them as sent."""
        if tools_hash in self._sent:
            return False
        earlier = self._sent if self._remember_all else frozenset()
        self._sent = earlier | {tools_hash}
        return True

    def copy(self) -> "SentTools":
        """Return an independent record of the same definitions."""
        other = SentTools(remember_all=self._remember_all)
        other._sent = self._sent
        return other


def hash_of_tools(tools: Sequence[Any], *, default: Callable[[Any], Any] | None = None) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of tool definitions: `Observation.tools_hash`.

    `default` gives a JSON value for an object that JSON cannot express, as in `json.dumps`.

    Raises:
        NotCanonical: the definitions have no canonical JSON form.
    """
    return canonical_sha256(list(tools), default=default)


def make_observation(
    context: Sequence[Message],
    base: int,
    *,
    held: int | None,
    tools_hash: str | None,
    tools_json: str | None,
) -> Observation:
    """Return the observation after which a reader holds `context`.

    The first `base` messages of `context` stay from the context held; the others are sent. `held`
    is the length of the context held: with all of it staying, `context_base` is left out. With
    `held=None` the base is always written.
    """
    return Observation(
        messages=tuple(context[base:]),
        context_base=None if base == held else base,
        context_hash=context_hash(context),
        tools_hash=tools_hash,
        tools_json=tools_json,
    )
