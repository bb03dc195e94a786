"""The senders of records: to Kafka, to the HTTP gateway, or to a list for tests."""

from atdp.sdk.senders.gateway import GatewaySender
from atdp.sdk.senders.kafka import KafkaSender
from atdp.sdk.senders.memory import MemorySender
from atdp.sdk.senders.port import Receipt, Sender, Verdict

__all__ = ["GatewaySender", "KafkaSender", "MemorySender", "Receipt", "Sender", "Verdict"]
