"""The pinned input of an evaluation: trajectories with the names needed to read them again."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from atdp.replay.coverage import key_of
from atdp.replay.records import LoggedGeneration, LoggedTrajectory
from atdp.replay.report_json import rounded_canonical_json


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedDataset:
    """The trajectories to evaluate on.

    `snapshots` maps a table to its Iceberg snapshot id. `refused` counts the rows that governance
    kept back, by reason. `policy_versions` names the governance policies under which the rows were
    admitted.
    """

    name: str
    trajectories: Sequence[LoggedTrajectory]
    snapshots: Mapping[str, int] = field(default_factory=dict)
    where: str | None = None
    policy_versions: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def content_sha256(self) -> str:
        """The digest of everything on which an estimate can depend, whatever the order of rows."""
        return content_hash(self.trajectories)


def content_hash(trajectories: Iterable[LoggedTrajectory]) -> str:
    """Return the SHA-256 over the fields that replay reads.

    Trajectories are hashed in the order of their keys, generations in their own order.
    """
    digest = hashlib.sha256()
    for t in sorted(trajectories, key=key_of):
        generations = [_hashed_fields(g) for g in t.generations]
        row = [*key_of(t), t.task_id, t.reward, generations]
        digest.update(rounded_canonical_json(row) + b"\n")
    return digest.hexdigest()


def _hashed_fields(g: LoggedGeneration) -> list[object]:
    """Return a generation's fields; log-probabilities as text, so that they are not rounded."""
    logprobs = g.output_logprobs
    return [
        g.event_id,
        g.weight_version,
        g.token_fidelity,
        g.context_intact,
        g.temperature,
        g.top_p,
        g.top_k,
        g.min_p,
        list(g.sampling_altered_by),
        _ints(g.prompt_token_ids),
        _ints(g.output_token_ids),
        _ints(g.loss_mask),
        None if logprobs is None else [repr(float(p)) for p in logprobs],
    ]


def _ints(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else [int(v) for v in values]
