"""A recorded evaluation is published only after the release flow has recorded its gate."""

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.release_decisions import bootstrapped, record_decisions, registered

from atdp.control import DecisionRefused, EffectFailed
from atdp.control.candidate_decisions import gate_of_report
from atdp.replay import ReplayReport
from atdp.runtime import Home
from atdp.stack.evaluations import publication
from atdp.stack.evaluations.evaluation_outbox import EvaluationOutbox
from atdp.stack.evaluations.publication import publish_pending, publish_recorded

from .test_publication import judged

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("ATDP_KAFKA_BOOTSTRAP", raising=False)
    home = Home(tmp_path / "home")
    candidate = registered("v2", weights_sha256="a" * 64)
    record_decisions(home, "orderdesk", NOW, bootstrapped("orderdesk"), candidate)
    return home


def waiting(home: Home) -> int:
    return len(EvaluationOutbox.of(home).waiting())


def killed_while_recording(home: Home, record: Callable[[], None]) -> None:
    """Publish in a child process that is killed after it has called `record`."""

    def record_and_die() -> None:
        record()
        os.kill(os.getpid(), signal.SIGKILL)

    report = judged()
    child = os.fork()
    if child == 0:
        publish_recorded(home, report, record_and_die)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def recorded(home: Home, report: ReplayReport) -> None:
    record_decisions(home, "orderdesk", NOW, gate_of_report(report, NOW))


def test_a_kill_before_the_gate_is_recorded_leaves_no_row(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_while_recording(home, lambda: None)
    publish_pending(home)
    assert waiting(home) == 0
    assert len(EvaluationOutbox.of(home).held()) == 1
    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(publication, "utc_now", lambda: later)
    publish_pending(home)
    assert EvaluationOutbox.of(home).is_empty()


def test_a_kill_after_the_gate_is_recorded_is_made_up_for_by_the_next_publisher(
    home: Home,
) -> None:
    killed_while_recording(home, lambda: recorded(home, judged()))
    assert waiting(home) == 0
    publish_pending(home)
    assert waiting(home) == 1
    assert EvaluationOutbox.of(home).held() == []
    publish_recorded(home, judged(), lambda: None)  # the command is repeated
    assert waiting(home) == 1


def test_without_the_held_record_a_kill_after_the_gate_loses_the_row(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvaluationOutbox, "hold", lambda *_: None)
    killed_while_recording(home, lambda: recorded(home, judged()))
    publish_pending(home)
    assert waiting(home) == 0


def test_a_refused_gate_has_no_row_and_a_recorded_one_that_is_not_in_force_has_one(
    home: Home,
) -> None:
    def refuse() -> None:
        raise DecisionRefused("look_taken", "another report has taken this look")

    def record_without_effect() -> None:
        recorded(home, judged())
        raise EffectFailed("the gateway does not answer")

    with pytest.raises(DecisionRefused):
        publish_recorded(home, judged(), refuse)
    assert EvaluationOutbox.of(home).is_empty()
    with pytest.raises(EffectFailed):
        publish_recorded(home, judged(), record_without_effect)
    assert waiting(home) == 1
