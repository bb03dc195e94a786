"""Advantages against a running baseline, where every task is attempted once.

Without other attempts at the same task, a trajectory is compared with what trajectories like it
have returned lately. The estimate of trajectory i of a batch is the leave-one-out mean

    b_i = (W m + sum over j != i of v_j) / (W + n - 1),    A_i = v_i - b_i,

over the n members of the batch and the history before it, in which a value counts a little less
with every later one (W = sum of the weights, m = weighted mean; weight `1 - 1/horizon` to the power
of the number of later values). It is RLOO's estimate (Ahmadian et al. 2402.14740) over a batch that
has a history, and without members besides i it is the exponential average that REINFORCE has used
since Williams (1992, section 8). v_i is the mean of the trajectory's returns over its turns.

*Clusters.* The mean is taken at two levels: the tenant's agent, and within it the task cluster, by
which is meant one version of prompt and tools. A cluster's mean is drawn towards that of the agent
as if PRIOR further values of the agent's mean had been seen in it. So a new prompt version begins
with the agent's mean, and a prompt that is different in every session (it holds a date or a name)
still has a baseline. Trajectories that have only rewards of turns, and none of the whole, are a
cluster apart: their returns lack the outcome, so they are not comparable with the others.

*Bias.* b_i does not contain v_i. So subtracting it does not change the expectation of the policy
gradient, whatever the history holds (Williams 1992, theorem 1; Sutton and Barto, section 13.4); a
history of a worse policy makes the mean of A positive, which costs variance only. Two things are
biased and are not removed by any baseline: rewards that are given to some sessions more often than
to others (the report of a run compares rated with unrated sessions), and whitening (see
advantages.py). The clip of the importance ratio has the bias that it has with groups, too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from atdp.trainer.algo.advantages import Returns

PRIOR = 8.0
"""Trajectories of the whole agent that a cluster's baseline begins with. With fewer, the baseline
of a new cluster is noisy; with more, a cluster that differs from the others is recognised later."""
MOST_CLUSTERS = 256
"""Clusters that a state keeps, those used last. The state is written with every plan."""


class Cluster(NamedTuple):
    """Trajectories that are compared with each other when a task is attempted once."""

    tenant: str
    agent: str
    has_outcome: bool
    """False for trajectories of which only turns have rewards."""
    versions: str
    """Versions of prompt and tools."""


class _Average(NamedTuple):
    """A decayed sum of values and of their weights."""

    weight: float = 0.0
    total: float = 0.0

    def joined(self, other: "_Average") -> "_Average":
        """Return both together."""
        return _Average(self.weight + other.weight, self.total + other.total)

    def without(self, value: float) -> "_Average":
        """Return the average without one value of full weight."""
        return _Average(self.weight - 1.0, self.total - value)

    def after(self, value: float, decay: float) -> "_Average":
        """Return the average after one more value."""
        return _Average(decay * self.weight + 1.0, decay * self.total + value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Baselines:
    """The history of every cluster; a part of plans and checkpoints, it is immutable."""

    averages: Mapping[tuple[str, ...], tuple[float, float]] = field(default_factory=dict)
    """Decayed weight and total of clusters and of agents, those used last at the end."""

    def compare(
        self, clusters: Sequence[Cluster], returns: Sequence[Returns]
    ) -> list[tuple[float, ...]]:
        """Return the advantages of the turns of every trajectory of a batch.

        A trajectory with which nothing can be compared has advantages of 0.
        """
        values = [float(np.mean(member)) for member in returns]
        joined: dict[tuple[str, ...], _Average] = {}
        for cluster, value in zip(clusters, values, strict=True):
            for key in _levels(cluster):
                before = joined.get(key) or _Average(*self.averages.get(key, ()))
                joined[key] = before.joined(_Average(1.0, value))
        result = []
        for cluster, value, member in zip(clusters, values, returns, strict=True):
            agent, narrow = (joined[key].without(value) for key in _levels(cluster))
            if agent.weight <= 0:
                result.append((0.0,) * len(member))
                continue
            prior = _Average(PRIOR, PRIOR * agent.total / agent.weight)
            estimate = narrow.joined(prior)
            baseline = estimate.total / estimate.weight
            result.append(tuple(each - baseline for each in member))
        return result

    def after(
        self, clusters: Sequence[Cluster], returns: Sequence[Returns], *, horizon: int
    ) -> "Baselines":
        """Return the state after a batch; a value's weight halves within 0.7 `horizon` values."""
        averages = dict(self.averages)
        for cluster, member in zip(clusters, returns, strict=True):
            for key in _levels(cluster):
                before = _Average(*averages.pop(key, ()))
                averages[key] = before.after(float(np.mean(member)), 1.0 - 1.0 / horizon)
        kept = list(averages.items())[-MOST_CLUSTERS:]
        return Baselines(averages={key: (average[0], average[1]) for key, average in kept})

    def to_json(self) -> list[list[Any]]:
        """Return the JSON form; floats are exact in it."""
        return [[list(key), *average] for key, average in self.averages.items()]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> "Baselines":
        """Return the state of a JSON form; inverse of `to_json`."""
        return cls(
            averages={
                tuple(key): (weight, total)
                for key, weight, total in value
                if math.isfinite(total)  # a history that holds no number would spoil every plan
            }
        )


def _levels(cluster: Cluster) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys of the agent and of the cluster within it."""
    agent = (cluster.tenant, cluster.agent, "outcome" if cluster.has_outcome else "turns only")
    return agent, (*agent, cluster.versions)
