"""The result of a query, in the form that the caller needs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atdp.runtime import csv_lines
from atdp.schemas import escape_control_characters

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_CELL_WIDTH = 60
"""Characters of a cell in `to_table`; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows with named, typed columns; held in memory as Arrow."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The column names, in order."""
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def arrow(self) -> pa.Table:
        """Return a pyarrow table."""
        return self.table

    def polars(self) -> "pl.DataFrame":
        """Return a Polars frame."""
        import polars as pl  # takes longer to import than a query to run

        frame = pl.from_arrow(self.table)
        return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()

    def pandas(self) -> "pd.DataFrame":
        """Return a pandas frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def rows(self) -> list[tuple[Any, ...]]:
        """Return Python tuples: times as aware datetimes, structs as dictionaries."""
        columns = [column.to_pylist() for column in self.table.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]

    def scalar(self) -> Any:
        """Return the single value of a single row.

        Raises:
            ValueError: there is more or less than one.
        """
        rows = self.rows()
        if len(rows) != 1 or len(rows[0]) != 1:
            raise ValueError(
                f"expected one value, got {len(rows)} rows of {len(self.columns)} columns"
            )
        return rows[0][0]

    def to_json(self) -> str:
        """Return a JSON array of objects.

        Times are in ISO 8601. Null, NaN and infinity are `null`.
        """
        return _json(self.dicts())

    def to_json_document(self, **further: object) -> str:
        """Return a JSON object with `columns` (name and Arrow type), `rows`, and `further` keys."""
        columns = [{"name": field.name, "type": str(field.type)} for field in self.table.schema]
        document = {"columns": columns, "rows": self.dicts(), **further}
        return _json(document)

    def to_csv(self) -> str:
        """Return CSV with a header: RFC 4180 quoting, line feeds, nested values as JSON.

        Null is an empty cell.
        """
        return csv_lines(self.csv_cells())

    def csv_cells(self) -> list[list[str]]:
        """Return the cells of the CSV as text, the names of the columns first."""
        rows = [[_cell(value, none="") for value in row] for row in self.rows()]
        return [self.columns, *rows]

    def to_table(self, max_rows: int = 100) -> str:
        """Return text for a terminal: aligned columns, long cells cut, control characters escaped.

        When there are more than `max_rows` rows, a last line counts the rest.
        """
        shown = [
            [_cut(_cell(value, none="NULL")) for value in row] for row in self.rows()[:max_rows]
        ]
        lines = [list(map(_cut, self.columns)), *shown]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        ruled = [lines[0], ["-" * width for width in widths], *lines[1:]]
        text = "\n".join(_aligned(line, widths) for line in ruled)
        left = len(self) - len(shown)
        return text + (f"\n… {left} more rows" if left > 0 else "")


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _cut(cell: str) -> str:
    one_line = escape_control_characters(cell).replace("\n", "⏎")
    return one_line if len(one_line) <= _CELL_WIDTH else one_line[: _CELL_WIDTH - 1] + "…"


def _cell(value: Any, *, none: str) -> str:
    if value is None:
        return none
    if isinstance(value, list | dict):
        return _json(value)
    return str(value if isinstance(value, str | int | float) else _json_value(value))


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=_json_value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity
        return json.dumps(_finite(value), default=_json_value, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
