"""Teacher forcing: at each recorded step, the candidate is shown the recorded prefix.

Its next action is compared with the recorded one (tools and canonical arguments), and where the
token ids of the recording are exact, its log-likelihood of the recorded action is measured. Neither
is a value: style dominates both. They are read beside those of a baseline.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay.cassette.agent import ReplayedAgent
from atdp.replay.cassette.hermetic_run import REPLY, ReplayTools
from atdp.replay.cassette.recording import Chat, RecordedTurn, Recording
from atdp.replay.coverage import TrajectoryKey
from atdp.replay.errors import TurnRefused
from atdp.replay.scoring import Scorer, score
from atdp.schemas import TokenFidelity, canonical_json, message_to_chat, tool_calls

_EXACT: TokenFidelity = "exact"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForcedStep:
    """One recorded step."""

    tools: tuple[str, ...]
    """The recorded tools; `REPLY` for a reply to the user."""
    agrees: bool | None
    """True for the same calls in the same order; None: the engine does not take the prefix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForcedTrajectory:
    """The candidate's actions at the steps of one recording."""

    key: TrajectoryKey
    task_id: str | None
    steps: tuple[ForcedStep, ...]
    answers_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionLikelihood:
    """The log-likelihood of the recorded actions of one recording."""

    key: TrajectoryKey
    nats: float
    tokens: int


def force_recording(
    recording: Recording, agent: ReplayedAgent, tools: ReplayTools
) -> ForcedTrajectory:
    """Return an agent's actions at the recorded steps."""
    shown = tools.changes.shown_tools(recording.tools)
    digest = hashlib.sha256()
    steps: list[ForcedStep] = []
    history: list[Chat] = []
    for turn in recording.turns:
        history.extend(turn.given)
        try:
            message = agent.next_turn(tools.changes.opening(history), shown)
        except TurnRefused:
            message = None
        agrees = None
        if message is not None:
            calls = [tools.rules.canonical(recording.tenant, call) for call in tool_calls(message)]
            identity = tuple(call.identity for call in calls)
            written = canonical_json([message.text, identity])
            digest.update(written.encode("utf-8", "surrogatepass"))
            agrees = identity == turn.identity
        recorded = tuple(call.tool for call in turn.calls)
        steps.append(ForcedStep(tools=recorded or (REPLY,), agrees=agrees))
        history.extend(_chat(turn))
    return ForcedTrajectory(
        key=recording.key,
        task_id=recording.task_id,
        steps=tuple(steps),
        answers_sha256=digest.hexdigest(),
    )


def has_exact_ids(recording: Recording) -> bool:
    """Return True when the recording holds the token ids of every prompt and output."""
    generations = recording.record.generations
    return bool(generations) and all(
        each.token_fidelity == _EXACT
        and each.broken_prefix is None
        and each.prompt_token_ids
        and each.output_token_ids
        for each in generations
    )


def action_likelihoods(recordings: Sequence[Recording], scorer: Scorer) -> list[ActionLikelihood]:
    """Return the log-likelihoods of the recorded actions, of recordings with exact ids.

    Tokens that the harness forced (`loss_mask` 0) do not count.

    Raises:
        ScoringError: the engine failed, or its answer does not fit the request.
    """
    scored = score([recording.record for recording in recordings], scorer)
    likelihoods = []
    for recording, arrays in zip(recordings, scored, strict=True):
        kept = [
            array if each.loss_mask is None else array[np.asarray(each.loss_mask, dtype=bool)]
            for each, array in zip(recording.record.generations, arrays, strict=True)
        ]
        likelihoods.append(
            ActionLikelihood(
                key=recording.key,
                nats=float(sum(array.sum() for array in kept)),
                tokens=sum(len(array) for array in kept),
            )
        )
    return likelihoods


def _chat(turn: RecordedTurn) -> list[Chat]:
    return [message_to_chat(turn.message), *turn.results]
