"""What `atdp replay` does, without the command line: names in, report and files out.

The stack's engines are used when no URL is given (`atdp.replay.engines`). Engines and lake are
read, never written.
"""

from pathlib import Path

from atdp.lakehouse import LakehouseError, open_lake
from atdp.replay.config import ReplayConfig
from atdp.replay.engines import StackEngines
from atdp.replay.errors import ReplayDataError, WeightsError
from atdp.replay.lineage import trained_on
from atdp.replay.page import render
from atdp.replay.report import ReplayReport
from atdp.replay.run import Policy, replay
from atdp.replay.source import pinned_dataset
from atdp.replay.weights import weights_sha256
from atdp.runtime import Home


def evaluate_dataset(
    home: Home,
    *,
    dataset: str,
    model: str,
    candidate: str,
    baseline: str,
    candidate_url: str | None = None,
    baseline_url: str | None = None,
    held_out: bool = True,
    config: ReplayConfig | None = None,
) -> ReplayReport:
    """Evaluate version `candidate` of `model` against `baseline` on a dataset of this home.

    `held_out` sets aside what the candidate and its ancestors were trained on, and other attempts
    at those tasks. Raises `ReplayDataError` when the dataset does not exist or cannot be read,
    `LineageError` when nobody knows what they were trained on; what goes wrong later is the verdict
    ERROR.
    """
    try:
        lake = open_lake(home)
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    pinned = pinned_dataset(lake, dataset)
    engines = StackEngines(
        endpoints=home.endpoints(),
        weights=home.weights,
        routes_file=home.routes_file,
        locks=home.control,
    )
    return replay(
        pinned,
        candidate=_policy(home, model, candidate, candidate_url),
        baseline=_policy(home, model, baseline, baseline_url),
        config=config,
        trained_on=trained_on(home.weights, model, candidate) if held_out else None,
        open_scorer=engines.open,
    )


def _policy(home: Home, model: str, version: str, url: str | None) -> Policy:
    """A version, with the hash of its weights where the registry has them; a foreign engine's stay unknown."""
    try:
        sha256 = weights_sha256(home.weights / model / version)
    except WeightsError:
        sha256 = None
    return Policy(model=model, version=version, url=(url or "").rstrip("/"), weights_sha256=sha256)


def write_report(report: ReplayReport, page: Path) -> tuple[Path, Path]:
    """Write the page and, beside it, the canonical JSON; returns both paths. Parents are made.

    A path that ends in `.json` names the JSON, with the page beside it.
    """
    page = page if page.suffix.lower() not in ("", ".json") else page.with_suffix(".html")
    data = page.with_suffix(".json")
    page.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(report.canonical())
    page.write_text(render(report), encoding="utf-8")
    return page, data
