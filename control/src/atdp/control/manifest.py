"""Reads a version's manifest from the weight registry, and names its weights by their bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atdp.control.errors import ControlError
from atdp.replay import weights_sha256


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a candidate's registration records. Missing lineage is None or empty, never guessed."""

    model: str
    version: str
    weights_sha256: str
    parent: str | None = None
    run_id: str | None = None
    snapshots: Mapping[str, int] = field(default_factory=dict)
    policy_versions: tuple[str, ...] = ()
    trajectories_used: int | None = None


def read_manifest(weights: Path, model: str, version: str) -> Manifest:
    """The manifest of a version under the registry's root `weights`. Raises `ControlError`."""
    directory = weights / model / version
    try:
        found = json.loads((directory / "manifest.json").read_text("utf-8"))
    except FileNotFoundError as error:
        raise ControlError(
            f"there is no {model} {version} in the weight registry ({directory}); `atdp train` publishes versions"
        ) from error
    except ValueError as error:
        raise ControlError(f"{directory / 'manifest.json'} is not JSON: {error}") from error
    if (
        not isinstance(found, dict)
        or found.get("version") != version
        or found.get("model") != model
    ):
        raise ControlError(
            f"{directory / 'manifest.json'} is not the manifest of {model} {version}"
        )
    used = found.get("trajectories_used")
    return Manifest(
        model=model,
        version=version,
        weights_sha256=weights_sha256(directory),
        parent=_text(found.get("parent")),
        run_id=_text(found.get("run_id")),
        snapshots={
            str(k): int(v) for k, v in (found.get("snapshots") or {}).items() if v is not None
        },
        policy_versions=tuple(sorted(str(p) for p in found.get("policy_versions") or ())),
        trajectories_used=used if isinstance(used, int) else None,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
