"""The evaluators files on the pages can be used as they are."""

import re
from pathlib import Path

import pytest

from atdp.rewards import read_evaluators

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(
    r"^```yaml\n(?P<text>version: \d+\nevaluators:.*?)^```", re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("page", ["reference/evaluators.md", "how-to/judge-trajectories.md"])
def test_the_file_on_the_page_is_one(page: str, tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("")
    (tmp_path / "helpful-1.txt").write_text("{{ conversation }}")
    (text,) = [each["text"] for each in BLOCK.finditer((DOCS / page).read_text("utf-8"))]
    file = tmp_path / "acme.yaml"
    file.write_text(text)
    assert len(read_evaluators(file, tenant="acme")) == 2
