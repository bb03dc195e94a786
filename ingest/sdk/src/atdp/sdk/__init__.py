"""The part that agents install: recorder, durable spool and senders of ATDP events."""

import logging

from atdp.sdk.decorators import observe
from atdp.sdk.defaults import default_recorder, emit_reward, flush, init, trajectory
from atdp.sdk.delivery_report import Fate, FlushReport
from atdp.sdk.errors import ConfigurationError, SdkError, SpoolError, SpoolFullError
from atdp.sdk.messages import as_message, as_messages
from atdp.sdk.recorder import Recorder
from atdp.sdk.senders import GatewaySender, KafkaSender, MemorySender, Receipt, Sender, Verdict
from atdp.sdk.settings import Durability, OnFull
from atdp.sdk.spool_inspection import SpoolSummary, inspect_spools
from atdp.sdk.spool_recovery import RecoveredFile, recover_spools
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory

# A library's logger must not print when the host has set up no logging.
logging.getLogger("atdp.sdk").addHandler(logging.NullHandler())

__all__ = [
    "ConfigurationError",
    "Durability",
    "Fate",
    "FlushReport",
    "GatewaySender",
    "KafkaSender",
    "MemorySender",
    "OnFull",
    "Receipt",
    "Recorder",
    "RecoveredFile",
    "SdkError",
    "Sender",
    "SpoolError",
    "SpoolFullError",
    "SpoolSummary",
    "Trajectory",
    "Verdict",
    "as_message",
    "as_messages",
    "current_trajectory",
    "default_recorder",
    "emit_reward",
    "flush",
    "init",
    "inspect_spools",
    "observe",
    "recover_spools",
    "trajectory",
]
