"""The evaluation behind `atdp replay run`: names of versions in, report and files out.

The stack's engines are used when no URL is given (`atdp.replay.stack_engines`). The lake is only
read. The run is stored in the home, so that it can be repeated (`atdp.replay.stored_runs`).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from atdp.inference import ModelError, weights_sha256
from atdp.lakehouse import LakehouseError, open_lake
from atdp.replay.config import ReplayConfig
from atdp.replay.engine_address import host_and_port
from atdp.replay.errors import ConfigError, ReplayDataError
from atdp.replay.lake_dataset import pinned_dataset
from atdp.replay.lineage import trained_on
from atdp.replay.recorded_scores import RecordedScores
from atdp.replay.report import ReplayReport
from atdp.replay.report_files import write_report_files
from atdp.replay.report_page import render
from atdp.replay.run import PolicyVersion, replay
from atdp.replay.stack_engines import StackEngines
from atdp.replay.stored_runs import StoredRuns
from atdp.runtime import Home

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRequest:
    """The versions of a model to compare, and the dataset to compare them on."""

    dataset: str
    model: str
    candidate: str
    baseline: str
    candidate_url: str | None = None
    """Engine that serves the candidate; None: found in the stack."""
    baseline_url: str | None = None
    """Engine that serves the baseline; None: found in the stack."""
    held_out: bool = True
    """Set aside the trajectories that the candidate and its ancestors were trained on, and other
    attempts at the same tasks."""


def evaluate_dataset(
    home: Home, request: ReplayRequest, *, config: ReplayConfig | None = None
) -> ReplayReport:
    """Evaluate the candidate against the baseline on a dataset of this home.

    An error after the dataset and the lineage were read becomes the verdict ERROR.

    Raises:
        ReplayDataError: the dataset does not exist or cannot be read.
        LineageError: the registry does not record what the candidate was trained on.
        ConfigError, NoEngineError: see `registered_policy`.
    """
    try:
        lake = open_lake(home)
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    dataset = pinned_dataset(lake, request.dataset)
    engines = StackEngines.of(home)
    candidate, baseline = (
        registered_policy(home, request.model, version, url)
        for version, url in (
            (request.candidate, request.candidate_url),
            (request.baseline, request.baseline_url),
        )
    )
    learned = (
        trained_on(home.weights, request.model, request.candidate) if request.held_out else None
    )
    scores = RecordedScores()
    report = replay(
        dataset,
        candidate=candidate,
        baseline=baseline,
        config=config,
        trained_on=learned,
        open_scorer=scores.recording(engines.open),
    )
    StoredRuns.of(home).keep(report, scores)
    return report


def registered_policy(home: Home, model: str, version: str, url: str | None) -> PolicyVersion:
    """Return a version with the digest of its weights.

    The digest is None when the weights are not in the registry, as with an engine of another owner.

    Raises:
        ConfigError: model or version cannot be the name of a folder in the registry.
        NoEngineError: the URL is none.
    """
    for name in (model, version):
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot be the name of a model or version; use letters, digits, '.', "
                "'_' and '-', the first one a letter or digit"
            )
    if url is not None:
        host_and_port(url)
    try:
        sha256 = weights_sha256(home.weights / model / version)
    except ModelError:
        sha256 = None
    return PolicyVersion(
        model=model, version=version, url=(url or "").rstrip("/"), weights_sha256=sha256
    )


def write_report(report: ReplayReport, page: Path) -> tuple[Path, Path]:
    """Write the page and, beside it, the canonical JSON; returns both paths.

    See `atdp.replay.report_files`.
    """
    return write_report_files(page, html=render(report), canonical=report.canonical())
