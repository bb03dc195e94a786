"""Offline replay evaluation of ATDP: estimators, gates and reports.

`replay(dataset, candidate=…, baseline=…)` scores two versions of a policy on logged trajectories
over HTTP, estimates what the candidate would have achieved, and gives a verdict with reasons.
"""

from atdp.inference.errors import EngineError
from atdp.replay.config import ReplayConfig
from atdp.replay.dataset import PinnedDataset
from atdp.replay.errors import ConfigError, DatasetError, ReplayError, ScoringError
from atdp.replay.report import ReplayReport
from atdp.replay.run import Policy, replay
from atdp.replay.verdict import Reason, Verdict

__all__ = [
    "ConfigError",
    "DatasetError",
    "EngineError",
    "PinnedDataset",
    "Policy",
    "Reason",
    "ReplayConfig",
    "ReplayError",
    "ReplayReport",
    "ScoringError",
    "Verdict",
    "replay",
]
