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


Types = dict[str, dict[str, list[str]]]
PUBLISHED = Path(__file__).parent / "published_fields"
_WHOLE = re.compile(r"(request_ref|response_ref|ext_json|metadata_json|tools_json|tools_hash)$")
"""Fields that hold a value as it is. A page need not list what is inside such a value."""


def published(name: str) -> Types:
    """Return the fields of each published type, with the types inside; attributes as one type."""
    types: Types = {}
    for line in (PUBLISHED / f"{name}.txt").read_text("utf-8").splitlines():
        path, _, inner = line.partition(": ")
        kind, _, field = path.rpartition(".")
        if line.startswith("#"):
            continue
        if re.match(r"(gen_ai|openai|agentlightning)\.", path) or name == "openinference":
            kind, field = "", path
        types.setdefault(kind, {})[field] = [each for each in inner.split(", ") if each]
    return types


def names_in(cell: str) -> set[str]:
    """Return the names that a cell has in code: whole paths, and their parts."""
    spans = re.findall(r"`([^`]+)`", cell)
    words = {word for span in spans for word in re.findall(r"[A-Za-z_][\w-]*", span)}
    return {*spans, *words}


def listed(name: str) -> dict[str, bool]:
    """Return the names of a page's first and third columns, and if their value is kept whole."""
    names: dict[str, bool] = {}
    for first, target, remark in rows(PAGES / f"{name}.md"):
        whole = all(_WHOLE.search(path) for path in re.findall(r"`([^`]+)`", target))
        for each in names_in(first):
            names[each] = names.get(each, True) and whole
        for each in {*names_in(remark), *re.findall(r"\w+", remark)}:
            names.setdefault(each, True)
    return names


def not_listed(types: Types, names: dict[str, bool]) -> set[str]:
    """Return the published fields that the page lacks, beginning with the types of no field."""
    inside = {each for fields in types.values() for inner in fields.values() for each in inner}
    queue = [kind for kind in types if kind not in inside]
    missing, seen = set(), set(queue)
    while queue:
        kind = queue.pop()
        for field, inner in types.get(kind, {}).items():
            if field not in names:
                missing.add(f"{kind}.{field}")
            elif not names[field]:
                queue.extend(each for each in inner if each not in seen)
                seen.update(inner)
    return missing


@pytest.mark.parametrize("name", FORMATS)
def test_a_page_lists_every_field_that_its_format_publishes(name: str) -> None:
    types = published(name)
    assert sum(map(len, types.values())) > 20
    assert not_listed(types, listed(name)) == set()


def test_a_field_that_the_page_does_not_name_is_missing() -> None:
    types = published("openai_chat")
    names = listed("openai_chat")
    assert not_listed(types, {**names, "messages": False}) == set()
    del names["reasoning_effort"]
    assert not_listed(types, names) == {"CompletionCreateParams.reasoning_effort"}


def test_what_is_inside_a_value_that_is_kept_whole_needs_no_row() -> None:
    types: Types = {"Root": {"kept": ["Inner"], "split": ["Inner"]}, "Inner": {"deep": []}}
    assert not_listed(types, {"kept": True, "split": True}) == set()
    assert not_listed(types, {"kept": True, "split": False}) == {"Inner.deep"}
