"""Durable appending of events: the port `EventLog` and its adapters.

`MemoryEventLog` keeps records in memory; import it from `atdp.gateway` for your own tests.
"""

from atdp.gateway.event_log.kafka import KafkaEventLog
from atdp.gateway.event_log.memory import MemoryEventLog
from atdp.gateway.event_log.port import AppendResult, EventLog, LogPosition, LogRecord, StillWanted

__all__ = [
    "AppendResult",
    "EventLog",
    "KafkaEventLog",
    "LogPosition",
    "LogRecord",
    "MemoryEventLog",
    "StillWanted",
]
