"""Python names and paths of files in the prose of the pages exist."""

import pkgutil
import re
from pathlib import Path

import pytest

from atdp.schemas import all_topics

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
]
PYTHON_NAME = re.compile(r"`(?P<name>atdp(?:\.\w+)+)(?:\(\))?`")
FOLDERS = (
    "schemas|runtime|access|ingest|governance|lakehouse|inference|trainer|replay|control|stack"
)
FILE = re.compile(rf"`(?P<path>(?:{FOLDERS}|examples|tests|benchmarks|docs|\.ci)/[\w./-]+)`")
OTHER_NAMES = {"atdp.commands", "atdp.offsets"}
"""Names that are not Python's: a group of entry points, a property of a snapshot."""


def is_python_name(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = {match["name"] for match in PYTHON_NAME.finditer(text)}
    names -= OTHER_NAMES | {topic.name for topic in all_topics().values()}
    assert sorted(name for name in names if not is_python_name(name)) == []
    paths = {match["path"] for match in FILE.finditer(text)}
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_a_missing_name_would_be_noticed() -> None:
    assert is_python_name("atdp.schemas.Event")
    assert not is_python_name("atdp.schemas.NoSuchName")
    assert not is_python_name("atdp.no_such_part")
