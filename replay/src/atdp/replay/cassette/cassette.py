"""The cassette of a recording: state, tool and arguments → recorded result.

The state is the digest of all writes so far. A read is answered in any order while no write has
come between, a write only in the state in which it was recorded. A reply to the user has no key:
the k-th reply is answered with what the user said after the k-th recorded reply, if the state is
the recorded one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from atdp.replay.cassette.recording import Chat, Recording
from atdp.replay.cassette.tool_rules import CanonicalCall
from atdp.schemas import canonical_sha256

State: TypeAlias = str
"""The hex SHA-256 of the writes so far; empty before the first."""
CallKey: TypeAlias = tuple[State, str, str]
"""State, tool, arguments."""

START: State = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedResult:
    """One recorded call: its result, and what it leads to."""

    call: CanonicalCall
    result: Chat
    state: State
    """The state after the call."""
    gives: int | None
    """Number of the messages that came after the result and before the next turn; None: none."""
    last: bool
    """True for the last call of a trajectory that ends with its result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedReply:
    """One recorded reply to the user."""

    state: State
    """The state in which it was given."""
    gives: int | None
    """Number of the messages that followed; None: none."""
    last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cassette:
    """The index of one recording."""

    recording: Recording
    results: Mapping[CallKey, tuple[RecordedResult, ...]]
    """By exact arguments, in the order recorded."""
    normal_results: Mapping[CallKey, tuple[RecordedResult, ...]]
    """The same by the arguments' normal form."""
    replies: tuple[RecordedReply, ...]
    given: tuple[tuple[Chat, ...], ...]
    """By number: the messages before each turn; at last those after the last turn."""

    @property
    def sha256(self) -> str:
        """The digest of the whole index."""
        rows = [
            [*key, [[each.result, each.state, each.gives, each.last] for each in results]]
            for key, results in sorted(self.results.items())
        ]
        replies = [[reply.state, reply.gives, reply.last] for reply in self.replies]
        return canonical_sha256([list(self.recording.key), rows, replies, list(self.given)])


def state_after(state: State, call: CanonicalCall) -> State:
    """Return the state after a call; reads leave it as it is."""
    return canonical_sha256([state, call.tool, call.exact]) if call.writes else state


def make_cassette(recording: Recording) -> Cassette:
    """Return the cassette of a recording."""
    results: dict[CallKey, list[RecordedResult]] = defaultdict(list)
    normal: dict[CallKey, list[RecordedResult]] = defaultdict(list)
    replies: list[RecordedReply] = []
    given = (*(turn.given for turn in recording.turns), recording.closing)
    state = START
    for number, turn in enumerate(recording.turns, start=1):
        gives = number if given[number] else None
        last = number == len(recording.turns)
        if not turn.calls:
            replies.append(RecordedReply(state=state, gives=gives, last=last))
        for call, result, is_last in _with_last(turn.calls, turn.results):
            before, state = state, state_after(state, call)
            entry = RecordedResult(
                call=call,
                result=result,
                state=state,
                gives=gives if is_last else None,
                last=last and is_last,
            )
            results[before, call.tool, call.exact].append(entry)
            normal[before, call.tool, call.normal].append(entry)
    return Cassette(
        recording=recording,
        results={key: tuple(entries) for key, entries in results.items()},
        normal_results={key: tuple(entries) for key, entries in normal.items()},
        replies=tuple(replies),
        given=given,
    )


def _with_last(
    calls: tuple[CanonicalCall, ...], results: tuple[Chat, ...]
) -> Iterator[tuple[CanonicalCall, Chat, bool]]:
    for number, (call, result) in enumerate(zip(calls, results, strict=True), start=1):
        yield call, result, number == len(calls)
