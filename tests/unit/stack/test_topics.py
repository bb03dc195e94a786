"""Topics on the broker compared with their definitions."""

import dataclasses

from atdp.schemas import all_topics
from atdp.stack.topics import ExistingTopic, differences

RAW = all_topics()["events_raw"]


def test_a_topic_as_defined_has_no_differences() -> None:
    assert (
        differences(
            RAW, ExistingTopic(partitions=RAW.partitions, config={**RAW.config, "more": "x"})
        )
        == []
    )


def test_partitions_and_settings_that_differ_are_named() -> None:
    existing = ExistingTopic(
        partitions=RAW.partitions + 1, config={**RAW.config, "retention.ms": "5"}
    )
    sentences = differences(RAW, existing)
    assert sentences == [
        f"{RAW.name} has {RAW.partitions + 1} partitions, defined are {RAW.partitions}",
        f"{RAW.name} has retention.ms=5, defined is {RAW.config['retention.ms']}",
    ]


def test_raw_and_governed_are_defined_with_the_same_partitions() -> None:
    assert all_topics()["events_governed"].partitions == RAW.partitions
    assert (
        differences(
            dataclasses.replace(RAW, partitions=9), ExistingTopic(partitions=9, config=RAW.config)
        )
        == []
    )
