"""Offline replay evaluation of ATDP: estimators, release gate and reports.

`replay(dataset, candidate=…, baseline=…)` scores two versions of a policy on logged trajectories
over HTTP, estimates the reward that the candidate would have achieved, and gives a verdict with its
reasons.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
