"""Teacher forcing of a candidate over the recordings of a dataset, beside a baseline."""

from collections.abc import Sequence

from atdp.replay.cassette.hermetic_run import ReplayedTrajectory
from atdp.replay.cassette.recording import Recording
from atdp.replay.cassette.recording_report import (
    RecordingMeasures,
    RecordingReport,
    TrajectoryLine,
)
from atdp.replay.cassette.recording_verdict import judge_agreement
from atdp.replay.cassette.replay_measures import (
    Comparison,
    Ratio,
    Task,
    agreement_curve,
    agreement_ratio,
    agreements,
    compare_by_task,
    run_ratios,
)
from atdp.replay.cassette.replay_session import Measured, RecordingRequest, ReplaySession
from atdp.replay.cassette.teacher_forcing import ForcedTrajectory, force_recording, has_exact_ids
from atdp.replay.run import PolicyVersion
from atdp.runtime import Home


def force_recordings(home: Home, request: RecordingRequest) -> RecordingReport:
    """Compare the candidate's next action with the recorded one at every recorded step.

    Raises:
        ReplayDataError: the dataset does not exist or cannot be read.
    """
    return ReplaySession(home, request, "teacher").report(_measure_teacher)


def _measure_teacher(session: ReplaySession) -> Measured:
    recordings, settings = session.recordings.recordings, session.request.settings
    forced = _forced(session, session.candidate)
    itself = session.self_replays()
    if session.baseline is None:
        ours, theirs = forced_ratios(forced, itself), run_ratios(itself)
    else:
        ours = forced_ratios(forced)
        theirs = forced_ratios(_forced(session, session.baseline))
    comparison = compare_by_task(ours, theirs, settings)
    verdict, reasons = judge_agreement(comparison, settings)
    exact = [recording for recording in recordings if has_exact_ids(recording)]
    likelihood = None
    if session.baseline is not None and exact and not session.request.changes.is_change:
        likelihood = _likelihood(session, session.baseline, exact)
    measures = RecordingMeasures(
        agreement=agreement_curve([[step.agrees for step in run.steps] for run in forced]),
        self_agreement=agreement_curve([agreements(run) for run in itself]),
        comparison=comparison,
        likelihood=likelihood,
        likelihood_trajectories=0 if likelihood is None else len(exact),
        trajectories=tuple(
            _forced_line(run, recording) for run, recording in zip(forced, recordings, strict=True)
        ),
    )
    return measures, verdict, reasons


def _forced(session: ReplaySession, policy: PolicyVersion) -> list[ForcedTrajectory]:
    recordings = session.recordings.recordings
    if not recordings:
        return []
    with session.agent(policy) as agent:
        forced = session.each(
            lambda recording: force_recording(recording, agent, session.tools), recordings
        )
    session.note([run.answers_sha256 for run in forced])
    return forced


def _likelihood(
    session: ReplaySession, baseline: PolicyVersion, recordings: Sequence[Recording]
) -> Comparison | None:
    """Return the nats per token of both policies on the recorded actions."""
    tasks: dict[object, Task] = {each.key: (each.tenant, each.task_id) for each in recordings}

    def ratios(policy: PolicyVersion) -> list[tuple[Task, Ratio]]:
        likelihoods = session.likelihoods(policy, recordings)
        session.note(likelihoods)
        return [(tasks[each.key], (each.nats, float(each.tokens))) for each in likelihoods]

    theirs = ratios(baseline)
    return compare_by_task(
        ratios(session.candidate), theirs, session.request.settings, shares=False
    )


def forced_ratios(
    forced: Sequence[ForcedTrajectory], itself: Sequence[ReplayedTrajectory] | None = None
) -> list[tuple[Task, Ratio]]:
    """Return the task and the agreement of each recording.

    With `itself`, the replays of the recorded agent against its own recordings, only the steps
    count at which these were compared: they end at the first step that differs, and late steps of a
    recording are not like early ones.
    """
    compared = {run.key: agreement_ratio(agreements(run))[1] for run in itself or ()}
    return [
        (
            (run.key[0], run.task_id),
            agreement_ratio(
                [
                    step.agrees
                    for number, step in enumerate(run.steps)
                    if itself is None or number < compared.get(run.key, 0)
                ]
            ),
        )
        for run in forced
    ]


def _forced_line(run: ForcedTrajectory, recording: Recording) -> TrajectoryLine:
    tenant, trajectory, attempt = run.key
    different = [n for n, step in enumerate(run.steps, 1) if step.agrees is False]
    return TrajectoryLine(
        tenant=tenant,
        trajectory=trajectory,
        attempt=attempt,
        task=run.task_id,
        status="compared",
        steps=sum(step.agrees is not None for step in run.steps),
        recorded_steps=len(run.steps),
        agreed=sum(step.agrees is True for step in run.steps),
        first_divergence=different[0] if different else None,
        diverging_tool=", ".join(run.steps[different[0] - 1].tools) if different else None,
        reward=None,
        recorded_reward=recording.record.reward,
    )
