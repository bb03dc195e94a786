"""The ends of log files, for error messages."""

from pathlib import Path

_LONGEST_LINE_BYTES = 400
"""An estimate: with longer lines, fewer lines than asked for are returned."""


def last_lines(file: Path, lines: int) -> str:
    """Return the last lines of a text file; empty when there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _LONGEST_LINE_BYTES * lines))
            return "\n".join(stream.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""
