"""The report of an import: counts of trajectories, events and failures."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from atdp.adapters.imported_trajectory import UnreadableEntry
from atdp.schemas import Action, Event, Reward, contributed_messages


@dataclass(slots=True)
class ImportReport:
    """The counts of one import.

    `imported` + `failed` + `skipped` covers every trajectory and every unreadable file and row.
    """

    format: str
    files: int = 0
    imported: int = 0
    """Trajectories whose events were recorded (or would be, in a dry run)."""
    skipped: int = 0
    """Trajectories that occurred a second time."""
    failures: list[UnreadableEntry] = field(default_factory=list)
    events: int = 0
    messages: int = 0
    tool_calls: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    delivered: bool | None = None
    """True when every event was acknowledged in time; None in a dry run."""

    @property
    def failed(self) -> int:
        """Number of files and rows that could not be read."""
        return len(self.failures)

    @property
    def ok(self) -> bool:
        """True when nothing failed and nothing is undelivered."""
        return not self.failures and self.delivered is not False

    def count(self, made: Iterable[Event]) -> None:
        """Add the events of one imported trajectory."""
        self.imported += 1
        for event in made:
            self.events += 1
            self.messages += len(contributed_messages(event.body))
            if isinstance(event.body, Action) and event.body.type == "tool_call":
                self.tool_calls += 1
            if isinstance(event.body, Reward) and event.body.value is not None:
                self.rewards += 1
                self.reward_sum += event.body.value
