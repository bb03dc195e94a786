"""The page of replayed recordings shows names from data as text."""

from tests.planted_text import PLANTED, shown_without_effect

from atdp.replay.cassette.player import OUTCOMES
from atdp.replay.cassette.recording_page import render_recordings
from atdp.replay.cassette.recording_report import (
    RecordingInputs,
    RecordingMeasures,
    RecordingReport,
    TrajectoryLine,
)
from atdp.replay.report import DatasetInput, PolicyInput
from atdp.replay.verdict import Reason, Verdict

REPORT = RecordingReport(
    inputs=RecordingInputs(
        mode="cassette",
        dataset=DatasetInput(
            name=PLANTED,
            snapshots={PLANTED: 1},
            where=PLANTED,
            policy_versions=(),
            content_sha256=PLANTED,
            refused={PLANTED: 1},
        ),
        not_replayable={PLANTED: 1},
        candidate=PolicyInput(model=PLANTED, version=PLANTED, weights_sha256=PLANTED),
        baseline=PolicyInput(model=PLANTED, version=PLANTED, weights_sha256=None),
        settings={PLANTED: PLANTED, "list": [PLANTED]},
        changes_sha256=None,
    ),
    verdict=Verdict.INCONCLUSIVE,
    reasons=(Reason(code=PLANTED, text=PLANTED),),
    measures=RecordingMeasures(
        statuses={PLANTED: 1},
        outcomes={PLANTED: dict.fromkeys(OUTCOMES, 1)},
        trajectories=(
            TrajectoryLine(
                tenant=PLANTED,
                trajectory=PLANTED,
                attempt=1,
                task=PLANTED,
                status=PLANTED,
                steps=1,
                recorded_steps=2,
                agreed=1,
                first_divergence=1,
                diverging_tool=PLANTED,
                reward=None,
                recorded_reward=None,
            ),
        ),
    ),
)


def test_names_in_the_page_do_nothing() -> None:
    assert shown_without_effect(render_recordings(REPORT)) > 20
