"""The importer of ATIF files: one JSON document each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atdp.adapters.atif.reading import FORMAT, trajectories_of
from atdp.adapters.documents.json_text import UnreadableDocument, read_document
from atdp.adapters.imported_trajectory import ImportedTrajectory, UnreadableEntry

_PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Atif:
    """Importer of ATIF documents; an embedded sub-agent is a trajectory of its own."""

    format: str = FORMAT

    def probe(self, path: Path) -> bool:
        """Return True for an object that begins with an ATIF version."""
        try:
            with path.open("rb") as file:
                head = file.read(_PROBE_BYTES).lstrip()
        except OSError:
            return False
        return head.startswith(b"{") and b'"ATIF-v' in head

    def read(self, path: Path) -> Iterator[ImportedTrajectory | UnreadableEntry]:
        """See `Importer.read`."""
        try:
            trajectories = list(trajectories_of(read_document(path), str(path)))
        except UnreadableDocument as error:
            yield UnreadableEntry(str(path), str(error))
        else:
            yield from trajectories
