"""The renewal of state that a forked child must not share with its parent.

After `os.fork` a child has the parent's memory but none of its threads; locks may be held by
threads that do not exist there, and file descriptors are shared. Every object registered here gets
a call in the child, before the child's own code goes on.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something with state that a child must not share."""

    def renew_in_child(self) -> None:
        """Renew the state, in the child, where only the forking thread exists.

        The method must not take a lock of the parent's.
        """


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()
_hooked: list[bool] = []


def renew_after_fork(thing: Forkable) -> None:
    """Call `thing.renew_in_child()` in every child forked from now on, as long as `thing` lives."""
    if not _hooked:
        _hooked.append(True)
        os.register_at_fork(after_in_child=_renew)
    _registered.add(thing)


def _renew() -> None:
    for thing in list(_registered):
        thing.renew_in_child()
