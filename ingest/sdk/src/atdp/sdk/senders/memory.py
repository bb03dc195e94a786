"""A sender that keeps records in a list, for tests of programs that use the SDK."""

from collections.abc import Callable, Sequence

from atdp.schemas import Event, decode
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.senders.ownership import Ownership
from atdp.sdk.senders.port import Receipt, Verdict


class MemorySender:
    """Delivers into `records`; `verdict` can simulate a receiver that is down or refuses."""

    def __init__(self, verdict: Callable[[SpoolRecord], Verdict] | None = None) -> None:
        """Deliver everything, or give each record the verdict that `verdict` returns."""
        self.records: list[SpoolRecord] = []
        self.verdict: Callable[[SpoolRecord], Verdict] = verdict or (lambda _: "delivered")
        self._owner = Ownership("MemorySender")
        self._due: list[Receipt] = []

    @property
    def events(self) -> list[Event]:
        """The delivered records, decoded, in order of delivery."""
        return [decode(record.value) for record in self.records]

    def attach(self, api_key: str) -> None:  # noqa: ARG002 - part of the port
        """Belong to one recorder."""
        self._owner.claim()

    def submit(self, records: Sequence[tuple[int, SpoolRecord]]) -> int:
        """Decide about records at once."""
        for token, record in records:
            verdict = self.verdict(record)
            if verdict == "delivered":
                self.records.append(record)
            self._due.append(
                Receipt(
                    token,
                    verdict,
                    "" if verdict == "delivered" else f"the verdict was set to {verdict}",
                )
            )
        return len(records)

    def poll(self, timeout_s: float) -> list[Receipt]:  # noqa: ARG002 - part of the port
        """Return the receipts of everything submitted since the last poll."""
        due, self._due = self._due, []
        return due

    def reset(self) -> None:
        """Forget receipts that are owed."""
        self._due = []

    def close(self, timeout_s: float) -> None:
        """Do nothing: there is nothing to release."""
