"""Every module and every name on the page "Where does it live?" exists."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/explanation/where-does-it-live.md"
FOLDER = re.compile(r"^`(?P<folder>[\w/]+/)`$")
ROW = re.compile(r"^\| (?P<question>.+?) +\| `(?P<module>[\w./]+)` +\| (?:`(?P<name>\w+)`)? *\|$")


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of the page."""

    question: str
    module: Path
    name: str | None
    """Function, class or constant of the module; `None` where the whole module is the answer."""


def read_answers(text: str) -> list[Answer]:
    answers = []
    folder = ROOT
    for line in text.splitlines():
        if match := FOLDER.match(line):
            folder = ROOT / match["folder"]
        elif match := ROW.match(line):
            answers.append(Answer(match["question"], folder / match["module"], match["name"]))
    return answers


ANSWERS = read_answers(PAGE.read_text(encoding="utf-8"))


def defines(module: Path, name: str) -> bool:
    definition = rf"^(?:(?:async )?def {name}\b|class {name}\b|{name}\b.*=)"
    return bool(re.search(definition, module.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.question)
def test_the_module_and_the_name_exist(answer: Answer) -> None:
    assert answer.module.exists()
    assert answer.name is None or defines(answer.module, answer.name)


def test_every_table_row_of_a_part_is_read() -> None:
    parts = PAGE.read_text(encoding="utf-8").partition("## Contracts")[2]
    rows = [line for line in parts.splitlines() if line.startswith("|")]
    headers = [line for line in rows if line.startswith(("| question", "| --"))]
    assert len(ANSWERS) == len(rows) - len(headers) > 60


def test_every_part_has_a_section() -> None:
    manifests = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
    folders = {answer.module.relative_to(ROOT).parts[:2] for answer in ANSWERS}
    members = {manifest.parent.relative_to(ROOT).parts for manifest in manifests}
    assert {
        member for member in members if not any(f[: len(member)] == member for f in folders)
    } == set()


def test_a_missing_name_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def first():\n    second()\n", encoding="utf-8")
    assert defines(module, "first")
    assert not defines(module, "second")
