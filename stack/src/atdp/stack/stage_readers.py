"""The readers of the event log: governance reads the raw topic, the lake writer its results."""

from collections.abc import Sequence

from atdp.governance import GOVERNANCE_GROUP
from atdp.runtime import Home
from atdp.schemas import topic
from atdp.stack.consumer_lag import Offsets, StageReader
from atdp.stack.kafka_log import KafkaLog


def stages(home: Home, log: KafkaLog) -> Sequence[Sequence[StageReader]]:
    """Return the readers by stage; a later stage reads what the earlier ones write.

    The lake is opened when a position is asked.
    """
    raw = topic("events_raw").name
    return [
        [
            StageReader(
                name="governance", topic=raw, positions=lambda: log.committed(GOVERNANCE_GROUP, raw)
            )
        ],
        _lake_readers(home),
    ]


def _lake_readers(home: Home) -> list[StageReader]:
    from atdp.lakehouse import TableName, open_lake, table_definitions

    lake = open_lake(home)

    def reader(name: TableName) -> StageReader:
        def positions() -> Offsets:
            return lake.committed_offsets(name)

        return StageReader(
            name=f"lake {name}",
            topic=topic(table_definitions()[name].source).name,
            positions=positions,
        )

    return [reader(name) for name in table_definitions()]
