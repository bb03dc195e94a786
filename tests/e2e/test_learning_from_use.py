"""The online demo at reduced size: from calls without headers and ratings to a trained version.

The traffic is too small for a level of success. It shows the machinery: sessions are recognised,
ratings become rewards, rewards become updates, and a version is published, tried and released.
"""

import io
import json
from collections.abc import Iterator

import psutil
import pytest
from rich.console import Console

from atdp.runtime.home import Home
from atdp.trainer.model_shape import ModelShape
from order_desk.online_run import OnlineResult, run_online_demo
from order_desk.online_settings import OnlineDemoSettings
from order_desk.settings import DemoSettings

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]

SMALL = OnlineDemoSettings(
    start=DemoSettings(
        logged_episodes=300,
        shape=ModelShape(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=128, context=512),
        sft_steps=300,
        sft_batch=16,
        sft_learning_rate=6e-3,
    ),
    sessions=200,
    arrivals_per_s=10.0,
    longest_s=120.0,
    patience_s=240.0,
    rated_share=0.6,
    trajectories_per_step=8,
    publish_every=2,
    hold_out=0.3,
    margin=0.9,
    min_sessions=5,
    measured=60,
    bad_release_at=None,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnlineResult]:
    home = Home(tmp_path_factory.mktemp("online") / "home")
    yield run_online_demo(home, SMALL, Console(file=io.StringIO(), width=120))
    assert [p for p in psutil.process_iter(["cmdline"]) if str(home.root) in str(p.info)] == []


def test_every_user_is_served_by_one_version_in_one_trajectory(finished: OnlineResult) -> None:
    promises = finished.summary.promises
    assert promises["no session failed"], finished.summary.failures
    assert promises["no session met two versions, but those of the version taken back"]
    assert promises["every session became one trajectory of its own"]
    assert promises["the cost of every session is known"]
    assert len(finished.summary.sessions) > SMALL.sessions / 2  # fewer come to a slow machine


def test_ratings_become_rewards_and_nothing_else_does(finished: OnlineResult) -> None:
    summary = finished.summary
    rated = {
        each.calls[0].trajectory: each.rated_up
        for each in summary.sessions
        if each.rating_fate == "accepted"
    }
    rewards = {
        name: each.reward == 1.0
        for name, each in summary.evidence.sessions.items()
        if each.reward is not None
    }
    assert len(rewards) > len(summary.sessions) / 4
    assert all(rated[name] == reward for name, reward in rewards.items())


def test_rewards_are_trained_on_and_a_version_is_published(finished: OnlineResult) -> None:
    summary = finished.summary
    assert len(summary.evidence.steps) >= SMALL.publish_every
    assert {event.kind for event in summary.events} >= {"candidate"}


def test_the_page_and_the_summary_are_written(finished: OnlineResult) -> None:
    written = json.loads(finished.summary_json.read_text())
    assert written["sessions"] == len(finished.summary.sessions)
    assert "<svg" in finished.report_html.read_text()
