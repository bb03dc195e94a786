"""Python examples in the docs run unchanged. The examples of one page share their variables."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS_STACK = "<!-- examples need a running stack -->"


def pages() -> list[Path]:
    files = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    texts = [(page, page.read_text(encoding="utf-8")) for page in files]
    return [page for page, text in texts if BLOCK.search(text) and NEEDS_STACK not in text]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        exec(compile(match["code"], str(page), "exec"), names)


def test_there_are_examples_to_run() -> None:
    assert pages()
