"""Datasets: named, immutable selections that read the same for ever after.

A dataset is a filter over `trajectories` plus one snapshot per table, each kept from expiry by the
Iceberg tag `dataset-<name>` (any engine can read it by that tag), plus a manifest in
`datasets/<name>.json` with the policy versions that decided about its rows, a digest of the
trajectories selected, and a digest of itself. There is no way to change one: a name is taken once.

Tags are set first and the manifest is written last, so that a crash in between leaves tags that
keep too much, never a manifest that points at nothing; creating it again under the same name then
works. One process at a time is between the two, since tags can be moved: whoever creates holds a
lock, and only then looks whether the name is taken.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate

from atdp.lakehouse.commit import commit
from atdp.lakehouse.connection import ANY_PURPOSE, Connection, connect
from atdp.lakehouse.errors import DatasetError
from atdp.lakehouse.lake import NO_SNAPSHOT, Lake
from atdp.lakehouse.queries import query
from atdp.lakehouse.reader import GovernedTrajectories, Purpose, governed_trajectories
from atdp.lakehouse.tables import READ_ORDER, TableName

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A pinned selection of trajectories."""

    name: str
    created_at: str
    """ISO 8601, UTC."""
    tenant: str | None
    """`None`: all tenants."""
    where: str
    """SQL expression over the columns of `trajectories`; `true` selects all."""
    snapshots: Mapping[TableName, int]
    trajectories: int
    trajectories_sha256: str
    """Over the sorted keys (tenant, trajectory, attempt) of what was selected."""
    policies: tuple[Mapping[str, Any], ...]
    """Policies (id, version, hash) that decided about its rows."""

    def connect(self, lake: Lake, *, purpose: str | None = None) -> Connection:
        """A connection to the pinned snapshots (`purpose` as in `connect`); `where` is the caller's to apply (`selection`)."""
        return connect(lake=lake, tenant=self.tenant, purpose=purpose, snapshots=self.snapshots)

    def read(
        self, lake: Lake, *, purpose: Purpose, require_exact: bool = True
    ) -> GovernedTrajectories:
        """The dataset's trajectories, as far as `purpose` allows (see `reader.governed_trajectories`)."""
        return governed_trajectories(
            lake,
            purpose=purpose,
            tenant=self.tenant,
            where=self.where,
            snapshots=self.snapshots,
            require_exact=require_exact,
        )

    @property
    def selection(self) -> str:
        """A SELECT of the trajectories in the dataset, in order of the log."""
        return query("selection", where=self.where)

    def manifest(self) -> str:
        """The manifest as written: JSON, keys sorted, with its own digest."""
        content = asdict(self)
        return json.dumps({**content, "sha256": _digest(content)}, sort_keys=True, indent=1) + "\n"


def create_dataset(
    lake: Lake, name: str, where: str | None = None, tenant: str | None = None
) -> Dataset:
    """Pin the newest snapshots under a new name.

    Raises:
        DatasetError: the name is taken or not a name, or the lake moves too fast to be pinned.
        QueryFailed: `where` is wrong.
    """
    if not _NAME.fullmatch(name):
        raise DatasetError(
            f"{name!r} is not a dataset name; use small letters, digits, '.', '_' and '-', at most 63, e.g. retail-2026-03"
        )
    with _creating(lake.home.datasets):
        return _create(lake, name, where, tenant)


@contextmanager
def _creating(folder: Path) -> Iterator[None]:
    """Alone in creating datasets here; the lock goes with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / ".creating", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _create(lake: Lake, name: str, where: str | None, tenant: str | None) -> Dataset:
    target = lake.home.datasets / f"{name}.json"
    if target.exists():
        raise DatasetError(f"dataset {name} exists and datasets never change; choose another name")
    snapshots = _pin(lake, f"dataset-{name}")
    dataset = _describe(lake, name, (where or "true").strip(), tenant, snapshots)
    partial = target.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(dataset.manifest(), encoding="utf-8")
    try:
        os.link(partial, target)  # fails when another process was faster, unlike rename
    except FileExistsError as error:
        raise DatasetError(f"dataset {name} was just created by another process") from error
    finally:
        partial.unlink()
    return dataset


def load_dataset(lake: Lake, name: str) -> Dataset:
    """A dataset by name.

    Raises:
        DatasetError: there is none, or its manifest was changed.
    """
    file = lake.home.datasets / f"{name}.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(dataset.name for dataset in list_datasets(lake)) or "none yet"
        raise DatasetError(
            f"no dataset {name!r}; there are: {known} (`atdp dataset create`)"
        ) from None
    except json.JSONDecodeError as error:
        raise DatasetError(f"{file} is not JSON; restore it from a backup") from error
    digest = content.pop("sha256", None)
    dataset = Dataset(**{**content, "policies": tuple(content["policies"])})
    if digest != _digest(asdict(dataset)):
        raise DatasetError(
            f"{file} does not match its own digest: it was changed after it was created"
        )
    return dataset


def list_datasets(lake: Lake) -> list[Dataset]:
    """Every dataset, by name."""
    return [load_dataset(lake, file.stem) for file in sorted(lake.home.datasets.glob("*.json"))]


def _pin(lake: Lake, tag: str) -> dict[TableName, int]:
    """Tag the newest snapshot of every table, `events` first (see `tables.READ_ORDER`)."""
    pinned: dict[TableName, int] = {}
    for name in READ_ORDER:
        for _ in range(_ATTEMPTS):
            table = lake.table(name)
            head = table.current_snapshot()
            if head is None:
                pinned[name] = NO_SNAPSHOT
                break
            reference = SetSnapshotRefUpdate.model_validate(
                {"ref-name": tag, "type": SnapshotRefType.TAG, "snapshot-id": head.snapshot_id}
            )
            try:
                commit(table, [AssertTableUUID(uuid=table.metadata.table_uuid)], [reference])
            except (
                CommitFailedException,
                ValueError,
            ):  # the snapshot was expired, or a commit was faster
                continue
            pinned[name] = head.snapshot_id
            break
        else:
            raise DatasetError(
                f"could not tag {name} in {_ATTEMPTS} attempts; try again when less is being written"
            )
    return pinned


def _describe(
    lake: Lake, name: str, where: str, tenant: str | None, snapshots: Mapping[TableName, int]
) -> Dataset:
    draft = Dataset(
        name=name,
        created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        tenant=tenant,
        where=where,
        snapshots=snapshots,
        trajectories=0,
        trajectories_sha256="",
        policies=(),
    )
    with draft.connect(lake, purpose=ANY_PURPOSE) as connection:
        keys = connection.sql(query("selected_keys", selection=draft.selection)).rows()
        policies = connection.sql(query("policies", selection=draft.selection)).dicts()
    digest = hashlib.sha256(json.dumps(keys, separators=(",", ":")).encode()).hexdigest()
    return Dataset(
        **{
            **{field: getattr(draft, field) for field in draft.__dataclass_fields__},
            "trajectories": len(keys),
            "trajectories_sha256": digest,
            "policies": tuple(policies),
        }
    )


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
