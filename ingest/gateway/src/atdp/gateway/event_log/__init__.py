"""Appending events durably: the port, and its adapters.

`MemoryEventLog` is for your own tests too.
"""

from atdp.gateway.event_log.kafka import KafkaEventLog
from atdp.gateway.event_log.memory import MemoryEventLog
from atdp.gateway.event_log.port import EventLog, Fate, Position, Record, Wanted

__all__ = ["EventLog", "Fate", "KafkaEventLog", "MemoryEventLog", "Position", "Record", "Wanted"]
