"""Decisions are read from the register, checked, appended, and read again.

The register is read to its end before and after. When another writer was faster, the fold refuses
the later entry, and the writer reports the refusal: no decision is reported that has no effect.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from atdp.access import PolicyBody, PolicyLog, PolicySettings, policy_entry, refusal_of
from atdp.governance.errors import PolicyDecisionRefused, PolicyDecisionUnconfirmed
from atdp.runtime import Principal, Register, RegisterEntry, RegisterUnavailable

_TICK: Final = timedelta(microseconds=1)


class DecisionWriter:
    """The log of policies of one register; hold `lock` around each use of its methods."""

    def __init__(self, register: Register, now: Callable[[], datetime]) -> None:
        """Take a register that nobody else reads from."""
        self.lock = threading.RLock()
        self._register = register
        self._now = now
        self._log = PolicyLog()

    def read(self) -> PolicyLog:
        """Return the log up to the end that it has now.

        Raises:
            RegisterUnavailable: it cannot be read.
        """
        for entry in self._register.read():
            self._log.apply(entry)
        return self._log

    def check(self, caller: Principal, body: PolicyBody) -> None:
        """Check a decision against what was read last; nothing is written.

        Raises:
            PolicyDecisionRefused: the rules refuse it.
        """
        self._checked_entry(caller, body)

    def write(self, caller: Principal, body: PolicyBody) -> None:
        """Append a decision; return when it has its effect.

        Raises:
            PolicyDecisionRefused: the rules refuse it.
            PolicyDecisionUnconfirmed: it is not known whether the register holds it.
        """
        entry = self._checked_entry(caller, body)
        try:
            offset = self._register.append(entry)
            self.read()
        except RegisterUnavailable as error:
            raise PolicyDecisionUnconfirmed(
                f"it is not known whether the decision is in the register: {error}; "
                "call again: what the register holds is not written twice"
            ) from error
        for refused in self._log.refused:
            if refused.entry.offset == offset:
                raise PolicyDecisionRefused(refused.reason)
        if self._log.offset < offset:
            raise PolicyDecisionUnconfirmed(
                "the register has taken the decision and does not show it yet; call again"
            )

    def close(self) -> None:
        """Release the connections of the register."""
        self._register.close()

    def _checked_entry(self, caller: Principal, body: PolicyBody) -> RegisterEntry:
        at = self._now()
        if isinstance(body, PolicySettings) and self._log.set_at is not None:
            # A setting has to be newer than the last, also when that machine's clock was ahead.
            at = max(at, self._log.set_at + _TICK)
        entry = policy_entry(body, actor=caller.actor, recorded_at=at)
        if (reason := refusal_of(self._log, entry)) is not None:
            raise PolicyDecisionRefused(reason)
        return entry
