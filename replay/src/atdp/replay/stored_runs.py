"""The runs of a home, each under its run id: the canonical report and the scores it was made from.

`<home>/evaluations/runs/<run id>/report.json` and `scores.npz`, and `report.html` where the run was
published. With the pinned dataset and the weight registry, which name the data, they are everything
that a repetition needs; no engine has to answer again. The report is written after the scores, so a
run that has one is complete.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from atdp.replay.errors import RepeatError
from atdp.replay.recorded_scores import RecordedScores
from atdp.replay.report import ReplayReport
from atdp.replay.report_page import render
from atdp.replay.stored_report import report_from_json
from atdp.runtime import Home, write_durably

REPORT, SCORES, PAGE = "report.json", "scores.npz", "report.html"
_PREFIX = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as it is kept in a folder."""

    folder: Path

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.folder.name

    @property
    def canonical(self) -> bytes:
        """The canonical report."""
        return (self.folder / REPORT).read_bytes()

    def scores(self) -> RecordedScores:
        """Return the scores that the engines gave.

        Raises:
            RepeatError: they are damaged or were deleted.
        """
        try:
            return RecordedScores.from_bytes((self.folder / SCORES).read_bytes())
        except OSError as error:
            raise RepeatError(
                f"the scores of run {self.run_id[:16]} cannot be read ({error}); "
                "restore them from a backup, or evaluate again"
            ) from error


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs in one folder."""

    folder: Path

    @classmethod
    def of(cls, home: Home) -> "StoredRuns":
        """Return the runs of a home."""
        return cls(home.evaluations / "runs")

    def path(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.folder / run_id

    def keep(self, report: ReplayReport, scores: RecordedScores) -> None:
        """Store a run. A run that is stored already stays as it is: its id names its bytes."""
        if self.is_kept(report.run_id):
            return
        folder = self.path(report.run_id)
        write_durably(folder / SCORES, scores.to_bytes())
        write_durably(folder / REPORT, report.canonical())

    def is_kept(self, run_id: str) -> bool:
        """Return whether a run can be repeated from what is stored here."""
        return all((self.path(run_id) / name).exists() for name in (REPORT, SCORES))

    def page(self, run_id: str) -> Path:
        """Return the path of the page about a run; it exists after `write_page`."""
        return self.path(run_id) / PAGE

    def write_page(self, report: ReplayReport) -> None:
        """Write the page about a run, unless it exists."""
        if not self.page(report.run_id).exists():
            write_durably(self.page(report.run_id), render(report))

    def find(self, run_id: str) -> StoredRun:
        """Return the run whose id begins with `run_id`.

        Raises:
            RepeatError: there is none, or there are several.
        """
        if not _PREFIX.fullmatch(run_id):
            raise RepeatError(f"{run_id!r} is no run id; give at least 6 of its 64 hex digits")
        found = sorted(file.parent for file in self.folder.glob(f"{run_id}*/{REPORT}"))
        if len(found) != 1:
            raise RepeatError(
                f"{len(found) or 'no'} runs of this home have an id that begins with {run_id}; "
                "`atdp replay list` shows the ids of the recorded ones"
            )
        return StoredRun(found[0])

    def report(self, run_id: str) -> ReplayReport:
        """Return the report of a run as a value.

        Raises:
            RepeatError: see `find` and `report_from_json`.
        """
        return report_from_json(self.find(run_id).canonical)
