"""The limit to which weights are cut, so that one trajectory does not hide all others.

An action that the behaviour policy takes once in ten thousand times, and the candidate often, has a
weight of thousands. Where a log happens to hold it once, that trajectory decides the estimate and
the others count for nothing. A cut weight is at most the whole one. So what is cut away joins the
share of a policy's behaviour that the log lacks, for which the bounds take any reward
(`atdp.replay.unseen_share`), and they hold with any limit (Bottou et al. 2013, "Counterfactual
Reasoning and Learning Systems", section 4.4). A low limit leaves much away, a high one leaves the
estimate to few trajectories.

The limit is half the square root of the number of trajectories, so it rises at the rate of Ionides
2008, "Truncated Importance Sampling", and no weight is more than a small share of all: 5 % with 100
trajectories of weight 1. It does not depend on the weights, so a log cannot choose it. It was
chosen by simulation (`benchmarks/unseen_actions.py`), beside a limit twice as high and beside the
limit with the narrowest interval, which follows chance.
"""

import math
from dataclasses import replace

from atdp.replay.config import ReplayConfig
from atdp.replay.estimators import LoggedReturns


def with_weight_limit(logged: LoggedReturns, config: ReplayConfig) -> LoggedReturns:
    """Return the log with the limit for its weights, where the decisive estimator has one."""
    if not config.cuts_weights:
        return logged
    return replace(logged, weight_limit=max(1.0, math.sqrt(len(logged.mask)) / 2.0))
