"""The A/A baseline: the recorded agent compared with itself.

An agent repeats itself at an equal prefix far from always, so a candidate's coverage and agreement
mean something only beside those of the recorded agent. Two recordings of one task by the same agent
(and the same weights) give them: the turns of one are replayed against the cassette of the other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from atdp.replay.cassette.agent import RecordedAgent
from atdp.replay.cassette.cassette import Cassette
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.hermetic_run import ReplayedTrajectory, ReplayTools, replay_recording
from atdp.replay.cassette.recording import Recording
from atdp.replay.coverage import TrajectoryKey

TaskKey = tuple[str, str]
"""Tenant and task."""


def task_key(recording: Recording) -> TaskKey | None:
    """Return the task of a recording; None where nobody named one."""
    return None if recording.task_id is None else (recording.tenant, recording.task_id)


def pools(cassettes: Sequence[Cassette]) -> dict[TrajectoryKey, tuple[Cassette, ...]]:
    """Return, for each recording, the cassettes of the other recordings of its task."""
    tasks: dict[TaskKey, list[Cassette]] = defaultdict(list)
    for cassette in cassettes:
        if (task := task_key(cassette.recording)) is not None:
            tasks[task].append(cassette)
    return {
        cassette.recording.key: tuple(
            other
            for other in tasks.get(task_key(cassette.recording) or ("", ""), ())
            if other is not cassette
        )
        for cassette in cassettes
    }


def same_agent_pairs(cassettes: Sequence[Cassette]) -> list[tuple[Cassette, Recording]]:
    """Return a cassette and another recording of its task by the same agent, for each recording.

    Each recording is played once, against the next one of its task and agent.
    """
    groups: dict[tuple[object, ...], list[Cassette]] = defaultdict(list)
    for cassette in sorted(cassettes, key=lambda each: each.recording.key):
        task = task_key(cassette.recording)
        if task is not None:
            groups[(*task, *cassette.recording.agent)].append(cassette)
    return [
        (cassette, group[number - 1].recording)
        for group in groups.values()
        if len(group) > 1
        for number, cassette in enumerate(group)
    ]


def replay_against_itself(
    cassettes: Sequence[Cassette],
    tools: ReplayTools,
    pool: Mapping[TrajectoryKey, Sequence[Cassette]],
) -> list[ReplayedTrajectory]:
    """Return the replays of the recorded agent against its other recordings of the same tasks.

    A pool never holds the recording that is played: it would answer all of its own calls.
    """
    recorded = ReplayTools(settings=tools.settings, rules=tools.rules, changes=Counterfactual())
    return [
        replay_recording(
            cassette,
            RecordedAgent(other),
            recorded,
            pool=[each for each in pool[cassette.recording.key] if each.recording is not other],
        )
        for cassette, other in same_agent_pairs(cassettes)
    ]
