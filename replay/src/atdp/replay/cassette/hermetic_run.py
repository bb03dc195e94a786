"""One trajectory again: a live agent, with the recording's user turns and tool results.

Nothing is executed here. A tool call is looked up on the cassette, and there is no other way for it
to be answered. The replay of one recording ends at the recording's end (`completed`), at the first
call or reply that the recording does not answer (`diverged`), or at a limit.

The ids of the candidate's calls are replaced by their numbers, because engines draw them at random.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from atdp.replay.cassette.agent import ReplayedAgent
from atdp.replay.cassette.cassette import Cassette
from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.player import COUNTED, OUTCOMES, Outcome, PlayedAnswer, Player
from atdp.replay.cassette.recording import Chat
from atdp.replay.cassette.tool_rules import CanonicalCall, ToolRules
from atdp.replay.coverage import TrajectoryKey
from atdp.replay.errors import TurnRefused
from atdp.schemas import Message, canonical_json, message_to_chat, tool_calls

RunStatus: TypeAlias = Literal[
    "completed", "simulated", "diverged", "out_of_steps", "out_of_turns", "refused_by_engine"
]

REPLY = "reply to the user"
"""The name of a turn without calls, among the names of tools."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedStep:
    """One turn of the candidate. `outcomes` are those of its calls up to the first miss."""

    tools: tuple[str, ...]
    """Names of the tools called; `REPLY` for a reply to the user."""
    outcomes: tuple[Outcome, ...]
    agrees: bool | None
    """True for the recorded calls, in their order. None: an earlier step differs already, so that
    the two agents were not shown the same."""

    @property
    def outcome(self) -> Outcome:
        """The outcome that is trusted least."""
        return max(self.outcomes, key=OUTCOMES.index)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedTrajectory:
    """The replay of one recording."""

    key: TrajectoryKey
    task_id: str | None
    status: RunStatus
    steps: tuple[ReplayedStep, ...]
    recorded_steps: int
    reward: float | None
    """The recorded reward where it holds for the replay too; None where it does not."""
    recorded_reward: float | None
    answers_sha256: str
    """The digest of everything that the candidate wrote."""

    @property
    def first_divergence(self) -> int | None:
        """Number (from 1) of the first step that is not an answer of the recorded world."""
        numbers = (n for n, step in enumerate(self.steps, 1) if step.outcome not in COUNTED)
        return next(numbers, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayTools:
    """The parts of a replay that are the same for all recordings."""

    settings: CassetteSettings
    rules: ToolRules
    changes: Counterfactual = field(default_factory=Counterfactual)


def replay_recording(
    cassette: Cassette,
    agent: ReplayedAgent,
    tools: ReplayTools,
    *,
    pool: Sequence[Cassette] = (),
) -> ReplayedTrajectory:
    """Return the replay of a cassette's recording by an agent."""
    player = Player(cassette=cassette, policy=tools.settings.divergence, pool=pool)
    run = _HermeticRun(cassette, player, tools)
    status = run.play(agent)
    return ReplayedTrajectory(
        key=cassette.recording.key,
        task_id=cassette.recording.task_id,
        status=status,
        steps=tuple(run.steps),
        recorded_steps=len(cassette.recording.turns),
        reward=cassette.recording.record.reward if run.earns_recorded_reward(status) else None,
        recorded_reward=cassette.recording.record.reward,
        answers_sha256=run.digest.hexdigest(),
    )


class _HermeticRun:
    """The conversation so far."""

    def __init__(self, cassette: Cassette, player: Player, tools: ReplayTools) -> None:
        self.recording = cassette.recording
        self.steps: list[ReplayedStep] = []
        self.digest = hashlib.sha256()
        self._player = player
        self._tools = tools
        self._messages = tools.changes.opening(cassette.given[0])
        self._calls: list[CanonicalCall] = []
        self._in_step = True
        self._last_reply: str | None = None

    def play(self, agent: ReplayedAgent) -> RunStatus:
        shown = self._tools.changes.shown_tools(self.recording.tools)
        limit = self._tools.settings.max_steps or 2 * len(self.recording.turns) + 2
        for _ in range(limit):
            try:
                message = agent.next_turn(tuple(self._messages), shown)
            except TurnRefused:
                return "refused_by_engine"
            if message is None:
                return "out_of_turns"
            step = self._take(message)
            if step.outcome == "miss":
                return "diverged"
            if self._player.ended:
                counted = all(each.outcome in COUNTED for each in self.steps)
                return "completed" if counted else "simulated"
        return "out_of_steps"

    def earns_recorded_reward(self, status: RunStatus) -> bool:
        """Return True when the recorded reward holds for what was done."""
        if status != "completed":
            return False
        normal = self._tools.settings.divergence == "normalised"
        done, recorded = _done(self._calls, normal), _done(self.recording.calls, normal)
        match self._tools.settings.reward_depends_on:
            case "writes":
                # The state at the end is the recorded one, so the writes are.
                return True
            case "calls":
                return done == recorded
            case "actions":
                last = self.recording.turns[-1]
                text = None if last.calls else last.message.text
                return done == recorded and _words(text) == _words(self._last_reply)

    def _take(self, message: Message) -> ReplayedStep:
        tenant, rules = self.recording.tenant, self._tools.rules
        calls = tuple(rules.canonical(tenant, call) for call in tool_calls(message))
        written = canonical_json([message.text, [call.identity for call in calls]])
        self.digest.update(written.encode("utf-8", "surrogatepass"))
        chat = _numbered(message, len(self._calls))
        self._messages.append(chat)
        if calls:
            outcomes = self._answer(calls, chat["tool_calls"])
        else:
            answer = self._player.reply()
            self._messages.extend(answer.given)
            outcomes = (answer.outcome,)
        self._last_reply = None if calls else message.text
        step = ReplayedStep(
            tools=tuple(call.tool for call in calls) or (REPLY,),
            outcomes=outcomes,
            agrees=self._agrees(tuple(call.identity for call in calls)),
        )
        self.steps.append(step)
        return step

    def _answer(
        self, calls: Sequence[CanonicalCall], written: Sequence[dict[str, Any]]
    ) -> tuple[Outcome, ...]:
        """Answer the calls of one turn, up to the first one that nothing answers."""
        answers: list[PlayedAnswer] = []
        for call, chat in zip(calls, written, strict=True):
            answer = self._player.call(call)
            answers.append(answer)
            if answer.outcome == "miss":
                break
            self._calls.append(call)
            if answer.result is not None:
                self._messages.append({**answer.result, "tool_call_id": chat["id"]})
        self._messages.extend(message for answer in answers for message in answer.given)
        return tuple(answer.outcome for answer in answers)

    def _agrees(self, identity: tuple[tuple[str, str], ...]) -> bool | None:
        number = len(self.steps)
        if not self._in_step or number >= len(self.recording.turns):
            return None
        self._in_step = identity == self.recording.turns[number].identity
        return self._in_step


def _numbered(message: Message, first: int) -> Chat:
    """Return a turn as a chat message whose calls have their numbers as ids."""
    chat = message_to_chat(message)
    for number, call in enumerate(chat.get("tool_calls", ()), first):
        call["id"] = f"call_{number}"
    return chat


def _done(calls: Sequence[CanonicalCall], normal: bool) -> list[tuple[str, str]]:
    return [(call.tool, call.normal if normal else call.exact) for call in calls]


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.split()
