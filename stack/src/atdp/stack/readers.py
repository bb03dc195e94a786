"""Who reads what: governance the raw topic, the lake writer everything that governance writes."""

from collections.abc import Sequence

from atdp.governance import GROUP
from atdp.runtime import Home
from atdp.schemas import topic
from atdp.stack.flow import Offsets, Reader
from atdp.stack.kafka_log import KafkaLog


def stages(home: Home, log: KafkaLog) -> Sequence[Sequence[Reader]]:
    """The readers by stage; a later stage reads what the earlier ones write.

    The lake is opened when a position is asked.
    """
    raw = topic("events_raw").name
    return [
        [Reader(name="governance", topic=raw, positions=lambda: log.committed(GROUP, raw))],
        _lake_readers(home),
    ]


def _lake_readers(home: Home) -> list[Reader]:
    from atdp.lakehouse import TableName, open_lake, table_definitions

    lake = open_lake(home)

    def reader(name: TableName) -> Reader:
        def positions() -> Offsets:
            return lake.committed_offsets(name)

        return Reader(
            name=f"lake {name}",
            topic=topic(table_definitions()[name].source).name,
            positions=positions,
        )

    return [reader(name) for name in table_definitions()]
