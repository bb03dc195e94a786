"""CSV as RFC 4180 quotes it, with lines that end in a line feed."""

import csv
import io
from collections.abc import Iterable, Sequence


def csv_lines(rows: Iterable[Sequence[str]], *, quote_all: bool = False) -> str:
    """Return the lines of rows; cells are quoted where they need it, or all of them."""
    buffer = io.StringIO(newline="")
    # Before Python 3.13, csv quotes only the characters of its own line terminator, so it has that
    # of the RFC; otherwise a carriage return in a cell ends the line for a reader.
    writer = csv.writer(
        buffer,
        lineterminator="\r\n",
        quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL,
    )
    lines = []
    for row in rows:
        writer.writerow(row)
        lines.append(buffer.getvalue().removesuffix("\r\n") + "\n")
        buffer.seek(0)
        buffer.truncate()
    return "".join(lines)
