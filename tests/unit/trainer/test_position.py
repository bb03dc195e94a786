"""The position in the stream: small, exact, and stable against late events."""

from hypothesis import given, strategies as st

from atdp.trainer.position import StreamPosition
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey


def at(partition: int, offset: int) -> TrainingTrajectory:
    return TrainingTrajectory(
        key=TrajectoryKey("t", f"{partition}-{offset}", 0),
        task="a",
        turns=(),
        reward=None,
        status="completed",
        started_us=offset,
        partition=partition,
        first_offset=offset,
    )


def test_a_mark_stops_before_the_first_undecided_start_of_its_partition() -> None:
    moved = StreamPosition().advance([at(0, 1), at(0, 5), at(1, 9)], {(0, 3)})
    assert moved.marks == {0: 1, 1: 9}
    assert [key.trajectory for key in moved.decided] == ["0-5"]


def test_once_the_gap_is_decided_the_mark_rises_over_what_was_listed() -> None:
    moved = StreamPosition().advance([at(0, 1), at(0, 5)], {(0, 3)}).advance([at(0, 3)], set())
    assert moved == StreamPosition(marks={0: 5})


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 30))), st.data())
def test_exactly_what_was_decided_counts_as_decided_in_whatever_portions(
    starts: set[tuple[int, int]], data: st.DataObject
) -> None:
    position, left = StreamPosition(), dict.fromkeys(starts)
    done: set[tuple[int, int]] = set()
    while left:
        portion = data.draw(st.lists(st.sampled_from(sorted(left)), min_size=1, unique=True))
        for start in portion:
            del left[start]
        done |= set(portion)
        position = position.advance([at(*start) for start in portion], set(left))
        position = StreamPosition.from_json(position.to_json())
        assert {start for start in starts if position.is_decided(at(*start))} == done
    assert not position.decided
