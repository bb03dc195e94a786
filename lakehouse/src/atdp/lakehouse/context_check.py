"""The fold of each trajectory's context from rows of the lake, with its check.

Two things are checked. The messages are those that the producer named: `context_hash`, holes in the
sequence and gaps (`atdp.schemas.ContextFold`). And each message is as governance wrote it:
`governance.content_hash`. The second needs the text, and is checked where the text is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from atdp.schemas import ContextFold, content_hash

Row: TypeAlias = Mapping[str, Any]
"""A row of `context.sql` or `context_names.sql`."""

BROKEN = "context_broken"
"""Reason of a refusal: messages are missing, so the fold is not what the model was shown."""
ALTERED = "context_altered"
"""Reason of a refusal: a message is not as governance wrote it."""
_SHOWN = frozenset({"observation", "action", "outcome"})
"""Kinds of events that may add messages. One that comes after later events of its producer, as a
record released from quarantine does, is not at the place at which the model was shown it."""


@dataclass(slots=True)
class CheckedContext:
    """The context of one trajectory after the rows folded so far."""

    fold: ContextFold[Any] = field(default_factory=ContextFold)
    tools_json: str | None = None
    """The tool definitions that were shown last."""
    broken_at: set[str] = field(default_factory=set)
    """Event ids of the actions whose context is not what the model was shown."""
    altered: bool = False
    complete: bool = True
    """True where the context was intact after the last message. A loss behind that message does
    not count."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _tools: dict[str | None, str] = field(default_factory=dict)

    def add_row(self, row: Row) -> None:
        """Fold one row of `context.sql`, in the order of that query."""
        self._number(row)
        message = row["message"]
        if message is not None and message["role"] is None:
            message = None
        if content_hash(_bodies(row, message)) != row["content_hash"]:
            self.altered = True
        self._fold(row, row["messages"] or (), () if message is None else (message,))
        self._remember_tools(row)

    def add_names(self, row: Row) -> None:
        """Fold one row of `context_names.sql`, in the order of that query."""
        self._number(row)
        self._fold(row, (None,) * (row["messages"] or 0), (None,) if row["message"] else ())

    def refusal(self) -> str | None:
        """Return why the context after the last message cannot be used; None when it can."""
        if self.altered:
            return ALTERED
        return None if self.complete else BROKEN

    def _number(self, row: Row) -> None:
        producer, seq = row["producer_id"], row["seq"]
        newest = self._numbers.get(producer, -1)
        if seq > newest + 1 or row["missing_from"] is not None:
            self.fold.miss()
        self._numbers[producer] = max(seq, newest)

    def _fold(self, row: Row, observed: Sequence[Any], added: Sequence[Any]) -> None:
        if row["kind"] == "observation":
            self.fold.observe(
                row["event_id"], observed, base=row["context_base"], claimed=row["context_hash"]
            )
            self.complete = self.fold.intact
            return
        if row["kind"] == "action" and not self.fold.intact:
            self.broken_at.add(row["event_id"])
        if added:
            self.fold.extend(row["event_id"], added)
            self.complete = self.fold.intact

    def _remember_tools(self, row: Row) -> None:
        if row["tools_json"] is not None:
            self._tools[row["tools_hash"]] = row["tools_json"]
        if row["tools_hash"] is not None or row["tools_json"] is not None:
            self.tools_json = self._tools.get(row["tools_hash"])
            if self.tools_json is None:
                self.fold.miss()
                self.complete = False


def _bodies(row: Row, message: object) -> dict[str, Any]:
    """Return the bodies of an event record as far as they contribute messages."""
    if row["kind"] == "observation":
        return {"observation": {"messages": row["messages"]}}
    return {"action": {"message": message}}
