"""The mapping pages name fields that exist, and every format has its page."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from atdp.schemas import AvroArray, AvroNullable, AvroRecord, AvroType, newest

PAGES = Path(__file__).parents[3] / "docs" / "reference" / "mappings"
FORMATS = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")
_HEADER = re.compile(r"\|[^|]*\| ATDP +\|")


def paths_of(node: AvroType, prefix: str = "") -> Iterator[str]:
    match node:
        case AvroArray(inner) | AvroNullable(inner):
            yield from paths_of(inner, prefix)
        case AvroRecord(fields=fields):
            for field in fields:
                yield prefix + field.name
                yield from paths_of(field.type, f"{prefix}{field.name}.")
        case _:
            pass


@cache
def contract_paths() -> frozenset[str]:
    return frozenset(paths_of(newest("event").tree))


def rows(page: Path) -> Iterator[list[str]]:
    """Yield the cells of every row of the tables whose second column is ATDP."""
    inside = False
    for line in page.read_text("utf-8").splitlines():
        if _HEADER.match(line):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|-: "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_that_a_page_names_is_in_the_contract(name: str) -> None:
    cells = [row[1] for row in rows(PAGES / f"{name}.md")]
    named = {path for cell in cells for path in re.findall(r"`([^`]+)`", cell)}
    assert len(named) > 10
    assert named - contract_paths() == set()


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_says_where_its_field_goes(name: str) -> None:
    assert [row for row in rows(PAGES / f"{name}.md") if len(row) != 3 or not row[1]] == []


@pytest.mark.parametrize("name", FORMATS)
def test_the_index_links_every_page(name: str) -> None:
    assert f"({name}.md)" in (PAGES / "README.md").read_text("utf-8")
