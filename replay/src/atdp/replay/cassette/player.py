"""The player of a cassette: answers a candidate's calls and replies, under a divergence policy.

Each answer has one of five outcomes. `hit`: the same call in the same state. `normalised`: a call
with the same normal form. `pooled`: the same call in the same state of another recording of the
task. `simulated`: the result of a similar read, which never counts. `miss`: nothing answers it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, Literal, TypeAlias

from atdp.replay.cassette.cassette import (
    START,
    CallKey,
    Cassette,
    RecordedResult,
    State,
)
from atdp.replay.cassette.cassette_settings import Divergence
from atdp.replay.cassette.recording import Chat
from atdp.replay.cassette.tool_rules import CanonicalCall

Outcome: TypeAlias = Literal["hit", "normalised", "pooled", "simulated", "miss"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("hit", "normalised", "pooled", "simulated", "miss")
"""In falling order of trust."""
COUNTED: Final = frozenset({"hit", "normalised", "pooled"})
"""Outcomes that are answers of the recorded world."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedAnswer:
    """The answer to one call or reply."""

    outcome: Outcome
    result: Chat | None = None
    """The recorded result; None for a reply, and for a miss."""
    given: tuple[Chat, ...] = ()
    """Messages that came next in the recording, such as the user's next turn."""


@dataclass(kw_only=True, slots=True)
class Player:
    """The state of one replay.

    `pool` holds the cassettes of other recordings of the same task, which only `pooled_exact` asks.
    """

    cassette: Cassette
    policy: Divergence
    pool: Sequence[Cassette] = ()
    ended: bool = False
    """True when the recording's end was reached."""
    _state: State = START
    _replies: int = 0
    _given: set[int] = field(default_factory=lambda: {0})
    _served: Counter[CallKey] = field(default_factory=Counter)

    def call(self, call: CanonicalCall) -> PlayedAnswer:
        """Answer a tool call."""
        recorded, outcome = self._find(call)
        if recorded is None:
            return PlayedAnswer(outcome="miss")
        if outcome == "simulated":
            return PlayedAnswer(outcome=outcome, result=recorded.result)
        self._state = recorded.state
        if outcome == "pooled":
            return PlayedAnswer(outcome=outcome, result=recorded.result)
        answered = self._replies == len(self.cassette.replies)
        self.ended = self.ended or (recorded.last and answered)
        return PlayedAnswer(
            outcome=outcome, result=recorded.result, given=self._give(recorded.gives)
        )

    def reply(self) -> PlayedAnswer:
        """Answer a reply to the user."""
        replies = self.cassette.replies
        if self._replies == len(replies) or replies[self._replies].state != self._state:
            return PlayedAnswer(outcome="miss")
        recorded = replies[self._replies]
        self._replies += 1
        self.ended = recorded.last
        return PlayedAnswer(outcome="hit", given=self._give(recorded.gives))

    def _find(self, call: CanonicalCall) -> tuple[RecordedResult | None, Outcome]:
        exact = (self._state, call.tool, call.exact)
        if recorded := self._serve(self.cassette.results, exact):
            return recorded, "hit"
        if self.policy == "normalised":
            normal = (self._state, call.tool, call.normal)
            return self._serve(self.cassette.normal_results, normal), "normalised"
        if self.policy == "pooled_exact":
            pooled = (entry for other in self.pool for entry in other.results.get(exact, ()))
            return next(pooled, None), "pooled"
        if self.policy == "nearest" and not call.writes:
            return self._nearest(call), "simulated"
        return None, "miss"

    def _serve(
        self, results: Mapping[CallKey, tuple[RecordedResult, ...]], key: CallKey
    ) -> RecordedResult | None:
        """Return the next result of a key.

        A call that is made more often than it was recorded has the recorded result only if all its
        results were equal.
        """
        recorded = results.get(key, ())
        number = self._served[key]
        if number >= len(recorded):
            texts = {str(entry.result.get("content")) for entry in recorded}
            return recorded[-1] if len(texts) == 1 else None
        self._served[key] += 1
        return recorded[number]

    def _nearest(self, call: CanonicalCall) -> RecordedResult | None:
        """Return the recorded read of the tool whose arguments are most similar; None: no read."""
        reads = [
            entry
            for entries in self.cassette.results.values()
            for entry in entries
            if entry.call.tool == call.tool and not entry.call.writes
        ]

        def similarity(entry: RecordedResult) -> float:
            return SequenceMatcher(None, entry.call.exact, call.exact, autojunk=False).ratio()

        return max(reads, key=similarity, default=None)

    def _give(self, number: int | None) -> tuple[Chat, ...]:
        """Return the messages of a number, once."""
        if number is None or number in self._given:
            return ()
        self._given.add(number)
        return self.cassette.given[number]
