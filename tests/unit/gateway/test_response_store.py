"""Response ids, and the sessions that feedback without a trajectory id finds."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from atdp.gateway.response_store import AnsweredChoice, ResponseStore
from atdp.gateway.session_store import NewSession, SessionStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def choice(name: str) -> AnsweredChoice:
    return AnsweredChoice(trajectory_id="t", attempt=0, event_id=name, step=1)


@pytest.fixture
def responses(tmp_path: Path) -> Iterator[ResponseStore]:
    store = ResponseStore(tmp_path / "responses.sqlite", max_age_s=100)
    yield store
    store.close()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "sessions.sqlite")
    yield store
    store.close()


def test_an_id_is_of_its_tenant_and_lasts(responses: ResponseStore, tmp_path: Path) -> None:
    responses.add("acme", "r\ud800" * 1_000, [choice("a"), choice("b")], 0.0)
    again = ResponseStore(tmp_path / "responses.sqlite")
    assert again.choices("acme", "r\ud800" * 1_000) == [choice("a"), choice("b")]
    assert again.choices("other", "r\ud800" * 1_000) == []
    again.close()


def test_an_id_that_two_answers_have_names_neither(responses: ResponseStore) -> None:
    for name in ("a", "b"):
        responses.add("acme", "same", [choice(name)], 0.0)
    assert [each.event_id for each in responses.choices("acme", "same")] == [None]


def test_old_ids_are_pruned(responses: ResponseStore) -> None:
    for number in range(1_001):
        responses.add("acme", str(number), [choice("a")], float(number))
    kept = [number for number in range(1_001) if responses.choices("acme", str(number))]
    assert kept == list(range(900, 1_001))


def test_a_sub_agent_is_not_what_a_person_rates(sessions: SessionStore) -> None:
    def opened(trajectory: str, minute: int, parent: str | None = None) -> None:
        row = sessions.open(
            NewSession(
                tenant="acme",
                trajectory_id=trajectory,
                attempt=0,
                session_id="s",
                task_id=None,
                agent_id="a",
                end_user_id="user-1",
                parent_trajectory_id=parent,
            ),
            NOW + timedelta(minutes=minute),
        )
        sessions.set_called(row, NOW.timestamp() + 60 * minute)

    opened("first", 0)
    opened("second", 1)
    opened("child", 2, parent="second")
    for found in (sessions.of_session("acme", "s"), sessions.last_of_end_user("acme", "user-1")):
        assert found is not None
        assert found.trajectory_id == "second"
    assert sessions.last_of_end_user("other", "user-1") is None
