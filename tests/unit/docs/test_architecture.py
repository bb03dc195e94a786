"""The page on the architecture names the parts, their imports and their layers as they are."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| `(?P<distribution>atdp[\w-]*)` +\|[^|]*\|(?P<imports>[^|]*)\|$", re.MULTILINE
)
LAYER = re.compile(r"^│(?P<parts>.*)│[^│]*$", re.MULTILINE)


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def members() -> dict[str, dict[str, Any]]:
    """Every member's manifest, by the folder of the member."""
    folders = read_toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
    return {folder: read_toml(ROOT / folder / "pyproject.toml") for folder in folders}


def part(distribution: str) -> str:
    """The last word of the package of a distribution."""
    return distribution.removeprefix("atdp-").replace("-", "_").replace("atdp", "stack")


def declared_parts(manifest: dict[str, Any]) -> set[str]:
    names = [
        re.split(r"[\[<>=!~;]", text)[0].strip() for text in manifest["project"]["dependencies"]
    ]
    return {part(name) for name in names if name == "atdp" or name.startswith("atdp-")}


def test_the_table_of_parts_gives_the_declared_imports() -> None:
    written = {
        row["distribution"]: set(re.findall(r"`(\w+)`", row["imports"]))
        for row in ROW.finditer(PAGE)
    }
    declared = {
        manifest["project"]["name"]: declared_parts(manifest) for manifest in members().values()
    }
    assert written == declared


def test_the_tree_names_every_member() -> None:
    assert [folder for folder in members() if f"\n{folder}/ " not in PAGE] == []


def test_the_figure_shows_the_layers_of_the_import_contract() -> None:
    drawn = [
        {name.strip() for name in row["parts"].split("│")}
        for row in LAYER.finditer(PAGE.partition("## The layers")[2])
    ]
    contracts = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert drawn == [
        {name.strip().removeprefix("atdp.") for name in re.split(r"[|:]", layer)}
        for layer in layers
    ]
