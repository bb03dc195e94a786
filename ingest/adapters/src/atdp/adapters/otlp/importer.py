"""The importers of OTLP files in JSON: one export request, or one a line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atdp.adapters.documents.json_text import UnreadableDocument, read_documents
from atdp.adapters.imported_trajectory import ImportedTrajectory, UnreadableEntry
from atdp.adapters.otlp.genai import GenAi
from atdp.adapters.otlp.openinference import OpenInference
from atdp.adapters.otlp.reading import trajectories_of
from atdp.adapters.otlp.records import merged
from atdp.adapters.otlp.vocabulary import Vocabulary

_PROBE_BYTES = 4096
_MARKS = (b'"resourceSpans"', b'"resourceLogs"')


@dataclass(frozen=True, slots=True)
class OtlpFiles:
    """Importer of OTLP documents; each trace is a trajectory."""

    vocabulary: Vocabulary

    @property
    def format(self) -> str:
        """Name on the command line."""
        return self.vocabulary.format

    def probe(self, path: Path) -> bool:
        """Return True for an object that begins with spans or log records of a resource."""
        try:
            with path.open("rb") as file:
                head = file.read(_PROBE_BYTES).lstrip()
        except OSError:
            return False
        return head.startswith(b"{") and any(mark in head for mark in _MARKS)

    def read(self, path: Path) -> Iterator[ImportedTrajectory | UnreadableEntry]:
        """See `Importer.read`."""
        try:
            document = merged(read_documents(path))
            trajectories = list(trajectories_of(document, self.vocabulary, str(path)))
        except UnreadableDocument as error:
            yield UnreadableEntry(str(path), str(error))
        else:
            yield from trajectories


OTLP_IMPORTERS = (OtlpFiles(GenAi()), OtlpFiles(OpenInference()))
"""The importers of the vocabularies that OTLP documents come in."""
