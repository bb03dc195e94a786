"""The pinned input of an evaluation: trajectories read through governance, with the names to read them again."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from atdp.replay.coverage import key_of
from atdp.replay.records import LoggedTrajectory
from atdp.replay.report_json import rounded_canonical_json


@dataclass(frozen=True, kw_only=True)
class PinnedDataset:
    """What is evaluated.

    `snapshots` maps table to Iceberg snapshot id; `refused` counts rows that governance kept back.

    `policy_versions` names the governance policies under which the rows were admitted.
    """

    name: str
    trajectories: Sequence[LoggedTrajectory]
    snapshots: Mapping[str, int] = field(default_factory=dict)
    where: str | None = None
    policy_versions: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def content_sha256(self) -> str:
        """Hash of everything that an estimate can depend on, independent of the order of rows."""
        return content_hash(self.trajectories)


def content_hash(trajectories: Iterable[LoggedTrajectory]) -> str:
    """SHA-256 over the fields that replay reads, trajectories in key order, generations in their own."""
    digest = hashlib.sha256()
    for t in sorted(trajectories, key=key_of):
        generations = [
            [
                g.event_id, g.weight_version, g.token_fidelity, g.temperature, g.top_p, g.top_k, g.min_p,
                list(g.sampling_altered_by),
                _ints(g.prompt_token_ids), _ints(g.output_token_ids), _ints(g.loss_mask),
                None if g.output_logprobs is None else [repr(float(p)) for p in g.output_logprobs],
            ]
            for g in t.generations
        ]  # fmt: skip
        digest.update(
            rounded_canonical_json([*key_of(t), t.task_id, t.reward, generations]) + b"\n"
        )
    return digest.hexdigest()


def _ints(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else [int(v) for v in values]
