"""A vocabulary: the names that an instrumentation gives to the facts of an operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from atdp.schemas import Action, Agent, Body, Cost, Message, Outcome, Reward, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The facts of one span or log record, as events hold them.

    `shown` are the messages that a model call was shown; None where the record has none. `body` is
    the record's own event, `choices` are further answers of the same call, `outcome` is the
    result of a tool call.
    """

    body: Body
    shown: tuple[Message, ...] | None = None
    tools: Sequence[Any] | None = None
    choices: tuple[Action, ...] = ()
    outcome: Outcome | None = None
    usage: Usage | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpRecordFacts:
    """The facts of a record that are no attributes; `failure` is the message of an error status."""

    name: str
    is_root: bool
    failed: bool = False
    failure: str | None = None


class Vocabulary(Protocol):
    """Reads the attributes of a record into an operation, and writes them from one."""

    @property
    def format(self) -> str:
        """Name of the format on the command line."""
        ...

    def read(self, attributes: Mapping[str, Any], facts: OtlpRecordFacts) -> Operation:
        """Return the operation that a record describes; attributes of wrong types are left out."""
        ...

    def write(self, operation: Operation) -> dict[str, Any]:
        """Return the attributes that the fields of an operation say."""
        ...

    def agent(self, attributes: Mapping[str, Any]) -> Agent | None:
        """Return the agent that a record names."""
        ...

    def session(self, attributes: Mapping[str, Any]) -> str | None:
        """Return the conversation that a record belongs to."""
        ...

    def evaluations(self, record: Mapping[str, Any]) -> list[Reward]:
        """Return the evaluations that a span carries in its own events."""
        ...
