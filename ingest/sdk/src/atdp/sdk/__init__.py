"""The part that agents install: recorder, durable spool and senders of ATDP events."""

import logging

from atdp.sdk.content_kinds import CONTENT_KINDS, ContentKind
from atdp.sdk.content_rules import Redact
from atdp.sdk.decorators import observe
from atdp.sdk.defaults import (
    default_recorder,
    feedback,
    flush,
    init,
    reward,
    stats,
    trajectory,
)
from atdp.sdk.delivery_report import Fate, FlushReport
from atdp.sdk.errors import ConfigurationError, SdkError, SpoolError, SpoolFullError
from atdp.sdk.judgements import JudgedTrajectory
from atdp.sdk.messages import as_message, as_messages
from atdp.sdk.recorder import Recorder
from atdp.sdk.recorder_stats import RecorderStats
from atdp.sdk.senders import GatewaySender, KafkaSender, MemorySender, Receipt, Sender, Verdict
from atdp.sdk.settings import Durability, OnFull
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory

# A library's logger must not print when the host has set up no logging.
logging.getLogger("atdp.sdk").addHandler(logging.NullHandler())

__all__ = [
    "CONTENT_KINDS",
    "ConfigurationError",
    "ContentKind",
    "Durability",
    "Fate",
    "FlushReport",
    "GatewaySender",
    "JudgedTrajectory",
    "KafkaSender",
    "MemorySender",
    "OnFull",
    "Receipt",
    "Recorder",
    "RecorderStats",
    "Redact",
    "SdkError",
    "Sender",
    "SpoolError",
    "SpoolFullError",
    "Trajectory",
    "Verdict",
    "as_message",
    "as_messages",
    "current_trajectory",
    "default_recorder",
    "feedback",
    "flush",
    "init",
    "observe",
    "reward",
    "stats",
    "trajectory",
]
