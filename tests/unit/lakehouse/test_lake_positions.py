"""Offsets are compared before they are swapped."""

import pytest
from hypothesis import given, strategies as st

from atdp.lakehouse.errors import CommitRefused, TopicChanged
from atdp.lakehouse.positions import Advance, Positions, TopicIdentity

TOPIC = TopicIdentity(name="t", cluster_id="c", topic_id="1")
OTHER = TopicIdentity(name="t", cluster_id="c", topic_id="2")

offsets = st.dictionaries(st.integers(0, 63), st.integers(0, 2**60), max_size=8)


@given(offsets)
def test_positions_survive_their_stored_form(next_: dict[int, int]) -> None:
    positions = Positions(topic=TOPIC, next=next_)
    assert Positions.from_json(positions.to_json()) == positions


@given(offsets, st.dictionaries(st.integers(0, 63), st.integers(1, 1000), max_size=8))
def test_a_batch_that_starts_where_the_table_stands_moves_only_its_partitions(
    committed: dict[int, int], sizes: dict[int, int]
) -> None:
    start = {partition: committed.get(partition) for partition in sizes}
    end = {partition: (start[partition] or 0) + size for partition, size in sizes.items()}
    after = Advance(topic=TOPIC, start=start, end=end).applied_to(
        Positions(topic=TOPIC, next=committed)
    )
    assert after.next == {**committed, **end}


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_batch_is_refused_unless_the_table_stands_exactly_at_its_start(
    stands: int, start: int
) -> None:
    advance = Advance(topic=TOPIC, start={0: start}, end={0: start + 10})
    committed = Positions(topic=TOPIC, next={0: stands})
    if stands == start:
        assert advance.applied_to(committed).next == {0: start + 10}
    else:
        with pytest.raises(CommitRefused, match="another writer"):
            advance.applied_to(committed)


def test_the_first_batch_of_a_partition_is_refused_when_somebody_has_read_it_already() -> None:
    advance = Advance(topic=TOPIC, start={0: None}, end={0: 10})
    assert advance.applied_to(None).next == {0: 10}
    with pytest.raises(CommitRefused):
        advance.applied_to(Positions(topic=TOPIC, next={0: 10}))


def test_offsets_of_a_recreated_topic_are_not_trusted() -> None:
    advance = Advance(topic=OTHER, start={0: 5}, end={0: 10})
    with pytest.raises(TopicChanged, match="created again"):
        advance.applied_to(Positions(topic=TOPIC, next={0: 5}))
