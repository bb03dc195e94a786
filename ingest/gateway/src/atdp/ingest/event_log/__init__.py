"""Appending events durably: the port, and its adapters. `MemoryEventLog` is for your own tests too."""

from .kafka import KafkaEventLog
from .memory import MemoryEventLog
from .port import EventLog, Fate, Position, Record, Wanted

__all__ = ["EventLog", "Fate", "KafkaEventLog", "MemoryEventLog", "Position", "Record", "Wanted"]
