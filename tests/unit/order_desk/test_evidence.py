"""The evidence that no trajectory was used without consent."""

from atdp.trainer import TrajectoryKey
from order_desk.emitted_events import EmittedEvents
from order_desk.evidence import is_without_consent


def test_a_trajectory_has_consent_only_when_lake_and_agents_both_say_so() -> None:
    emitted = EmittedEvents()
    emitted.begin("acme", "mine")
    emitted.begin("globex", "theirs")
    stray = [
        key.trajectory
        for key in (
            TrajectoryKey("acme", "mine", 0),
            TrajectoryKey("acme", "theirs", 0),  # landed under the wrong tenant
            TrajectoryKey("globex", "theirs", 0),
            TrajectoryKey("acme", "unheard of", 0),
        )
        if is_without_consent(key, emitted)
    ]
    assert stray == ["theirs", "theirs", "unheard of"]
