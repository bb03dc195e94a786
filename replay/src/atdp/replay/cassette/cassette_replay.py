"""Cassette replay: the candidate live against the recordings of a dataset."""

from collections import Counter

from atdp.replay.cassette.hermetic_run import ReplayedTrajectory, replay_recording
from atdp.replay.cassette.recording_report import (
    RecordingMeasures,
    RecordingReport,
    TrajectoryLine,
)
from atdp.replay.cassette.recording_verdict import judge_cassette_replay
from atdp.replay.cassette.replay_measures import (
    agreement_curve,
    agreements,
    compare_by_task,
    coverage_curve,
    first_diverging_tool,
    outcomes_by_tool,
    run_ratios,
    summarise_rewards,
)
from atdp.replay.cassette.replay_session import Measured, RecordingRequest, ReplaySession
from atdp.replay.cassette.self_agreement import pools
from atdp.runtime import Home


def replay_cassettes(home: Home, request: RecordingRequest) -> RecordingReport:
    """Run the candidate live against the recordings of a dataset of this home.

    Raises:
        ReplayDataError: the dataset does not exist or cannot be read.
    """
    return ReplaySession(home, request, "cassette").report(_measure_cassettes)


def _measure_cassettes(session: ReplaySession) -> Measured:
    cassettes, settings = session.recordings.cassettes, session.request.settings
    pool = pools(cassettes)
    runs: list[ReplayedTrajectory] = []
    if cassettes:
        with session.agent(session.candidate) as agent:
            runs = session.each(
                lambda each: replay_recording(
                    each, agent, session.tools, pool=pool[each.recording.key]
                ),
                cassettes,
            )
    session.note([run.answers_sha256 for run in runs])
    itself = session.self_replays()
    statuses: dict[str, int] = dict(sorted(Counter(run.status for run in runs).items()))
    comparison = compare_by_task(run_ratios(runs), run_ratios(itself), settings)
    tasks = {(run.key[0], run.task_id or run.key[1]) for run in runs}
    verdict, reasons = judge_cassette_replay(statuses, len(tasks), comparison, settings)
    measures = RecordingMeasures(
        agreement=agreement_curve([agreements(run) for run in runs]),
        self_agreement=agreement_curve([agreements(run) for run in itself]),
        comparison=comparison,
        statuses=statuses,
        coverage=coverage_curve(runs),
        self_coverage=coverage_curve(itself),
        outcomes=outcomes_by_tool(runs),
        rewards=summarise_rewards(runs),
        trajectories=tuple(map(_run_line, runs)),
    )
    return measures, verdict, reasons


def _run_line(run: ReplayedTrajectory) -> TrajectoryLine:
    tenant, trajectory, attempt = run.key
    return TrajectoryLine(
        tenant=tenant,
        trajectory=trajectory,
        attempt=attempt,
        task=run.task_id,
        status=run.status,
        steps=len(run.steps),
        recorded_steps=run.recorded_steps,
        agreed=sum(step.agrees is True for step in run.steps),
        first_divergence=run.first_divergence,
        diverging_tool=first_diverging_tool(run),
        reward=run.reward,
        recorded_reward=run.recorded_reward,
    )
