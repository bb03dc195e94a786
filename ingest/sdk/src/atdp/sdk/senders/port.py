"""The port between the shipper and whatever takes the records.

A sender owes one receipt for every record that it took. `submit` hands over a record (False: no
room now, ask again later); `poll` waits for receipts. The shipper calls both from one thread, so a
sender needs no locks of its own.

Three fates, three answers: DELIVERED (the receiver has it durably), RETRY (try again later, it may
or may not have arrived), REFUSED (the receiver will never take this record).
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from atdp.sdk.record_framing import SpoolRecord

Verdict: TypeAlias = Literal["delivered", "retry", "refused"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of the record that was submitted under `token`."""

    token: int
    verdict: Verdict
    reason: str = ""


class Sender(Protocol):
    """Takes records in order and says what became of each; records of one key arrive in the order they were submitted."""

    def attach(self, api_key: str) -> None:
        """Called once by the recorder that owns the sender; raises ConfigurationError when another one does."""

    def submit(self, token: int, record: SpoolRecord) -> bool:
        """Take a record; False when there is no room until receipts were polled."""

    def poll(self, timeout_s: float) -> list[Receipt]:
        """Receipts that are due; waits up to `timeout_s` for the first one."""

    def reset(self) -> None:
        """Forget everything submitted and start over: after an unrecoverable fault, or in a forked child."""

    def close(self, timeout_s: float) -> None:
        """Release connections; receipts still owed are given up (the spool has the records)."""
