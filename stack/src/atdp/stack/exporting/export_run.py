"""An export: trajectories that may be exported, as files with a manifest.

Everything is read through the governed reader with the purpose `export`, so trajectories that the
stamps, consent, retention or the permissions of the caller refuse are counted and not written. The
manifest is written last: a folder without one is not a finished export. It holds the snapshots and
the selection that were read, the trajectories, the refused by reason, and a digest of every file.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from atdp.lakehouse import (
    GovernedTrajectories,
    Lake,
    ReadOptions,
    TableName,
    TrajectoryRecord,
    governed_trajectories,
    load_dataset,
)
from atdp.runtime import Principal, files_of_user, utc_now, write_durably
from atdp.stack.errors import StackError
from atdp.stack.exporting.documents import DOCUMENTS

MANIFEST: Final = "manifest.json"


class ExportRefused(StackError):
    """The export cannot begin: the caller may not export, or the folder is not empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportRequest:
    """The selection that is exported, and its destination."""

    form: str
    """`chat-jsonl` (one file with a line per trajectory) or `atif` (a file per trajectory)."""
    folder: Path
    tenant: str | None = None
    """None: all tenants of the dataset, or of the lake."""
    where: str | None = None
    dataset: str | None = None
    """None: the newest snapshots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportReport:
    """The result of an export."""

    form: str
    exported: int
    refused: Mapping[str, int]
    snapshots: Mapping[TableName, int]
    manifest: Path


def export(
    lake: Lake,
    request: ExportRequest,
    caller: Principal,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> ExportReport:
    """Write an export; `progress` is called with the numbers of written and of all trajectories.

    Raises:
        ExportRefused: the caller may not export this, the format is unknown, or the folder has
            files in it.
        LakehouseError: the lake, or the register of consent, cannot be read.
    """
    tenant, where, snapshots = _selection(lake, request)
    _check(request, caller, tenant)
    records = governed_trajectories(
        lake,
        purpose="export",
        tenant=tenant,
        where=where,
        snapshots=snapshots,
        options=ReadOptions(caller=caller),
    )
    with files_of_user():
        request.folder.mkdir(parents=True, exist_ok=True)
    files = _write_documents(request, records, progress)
    manifest = {
        **{name: value for name, value in asdict(request).items() if name != "folder"},
        "tenant": tenant,
        "where": where,
        "purpose": "export",
        "exported_at": utc_now().isoformat(),
        "exported_by": caller.actor,
        "snapshots": dict(records.snapshots),
        "trajectories": [
            {"tenant_id": r.tenant_id, "trajectory_id": r.trajectory_id, "attempt": r.attempt}
            for r in records
        ],
        "refused": dict(records.refused),
        "sha256": files,
    }
    target = request.folder / MANIFEST
    with files_of_user():
        write_durably(target, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return ExportReport(
        form=request.form,
        exported=len(records),
        refused=records.refused,
        snapshots=records.snapshots,
        manifest=target,
    )


def _selection(
    lake: Lake, request: ExportRequest
) -> tuple[str | None, str | None, Mapping[TableName, int] | None]:
    if request.dataset is None:
        return request.tenant, request.where, None
    dataset = load_dataset(lake, request.dataset)
    if request.tenant not in (None, dataset.tenant) and dataset.tenant is not None:
        raise ExportRefused(
            f"dataset {dataset.name} holds trajectories of tenant {dataset.tenant!r} only"
        )
    parts = [part for part in (dataset.where, request.where) if part]
    where = " AND ".join(f"(\n{part}\n)" for part in parts)
    return request.tenant or dataset.tenant, where, dataset.snapshots


def _check(request: ExportRequest, caller: Principal, tenant: str | None) -> None:
    if request.form not in DOCUMENTS:
        raise ExportRefused(f"no format {request.form!r}; there are {', '.join(DOCUMENTS)}")
    if not caller.may("read:export") or not caller.may_act_for(tenant or "*"):
        of = "all tenants" if tenant is None else f"tenant {tenant!r}"
        raise ExportRefused(
            f"this key may not export trajectories of {of}; "
            "name its own tenant, and use a key of the role trainer or operator"
        )
    if request.folder.exists() and any(request.folder.iterdir()):
        raise ExportRefused(f"{request.folder} is not empty; name a new folder")


def _write_documents(
    request: ExportRequest, records: GovernedTrajectories, progress: Callable[[int, int], None]
) -> dict[str, str]:
    """Write the files; returns their digests by name."""
    document = DOCUMENTS[request.form]
    lines = (_line(document(record)) for record in _counted(records, progress))
    if request.form == "chat-jsonl":
        named: Iterator[tuple[str, str]] = iter([("conversations.jsonl", "".join(lines))])
    else:
        named = ((f"trajectory-{n:06d}.json", line) for n, line in enumerate(lines, start=1))
    digests = {}
    for name, text in named:
        with files_of_user():
            write_durably(request.folder / name, text)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def _counted(
    records: GovernedTrajectories, progress: Callable[[int, int], None]
) -> Iterator[TrajectoryRecord]:
    for done, record in enumerate(records, start=1):
        yield record
        progress(done, len(records))


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"
