"""Everything that set-up, checks and the SGLang contract install is locked by hash."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from atdp.stack.broker.jars import locked_jars

ROOT = Path(__file__).parents[3]
SCRIPTS = [
    ROOT / "Makefile",
    *sorted((ROOT / ".ci").iterdir()),
    *sorted(path for path in ROOT.glob("[a-z]*/**/*.sh") if ".venv" not in path.parts),
]
LOCKED_REQUIREMENTS = [ROOT / ".ci/uv.txt", ROOT / "inference/sglang/requirements.txt"]

# A command and what it must state. None: it must not be there at all.
RULES: list[tuple[str, str | None]] = [
    (r"\buv\b[\" ]+(--\S+ +)*(sync|run|export|audit)\b", r"--(locked|frozen)\b"),
    (r"\bpip3?\b[\" ]+(--\S+ +)*(install|sync|download)\b", r"--require-hashes\b"),
    (r"\b(uvx|pipx|conda|npx|curl|wget|git clone)\b", None),
    (r"\buv\b[\" ]+tool\b", None),
    (r"\b(npm|go|cargo|gem)\b +(install|ci|add|get)\b", None),
]
# Texts for people, and requirements themselves.
NO_COMMAND = re.compile(r"""^\s*(#|fail\b|echo\b|--hash|\*\) *echo|[01]\) *echo)|^[\w.-]+==""")


def unlocked(text: str) -> Iterator[str]:
    """Yield the commands of a script that install something that is not locked."""
    for line in text.replace("\\\n", " ").splitlines():
        if NO_COMMAND.match(line):
            continue
        for command, needed in RULES:
            if re.search(command, line) and (needed is None or not re.search(needed, line)):
                yield line.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_install_only_what_is_locked(script: Path) -> None:
    assert list(unlocked(script.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "uv sync --all-packages",
        '  if ! "$uv" sync --all-packages; then',
        '"$cache/uv/bin/pip" install --quiet uv',
        "uv pip install --python x \\\n  sglang",
        "python -m pip install torch",
        "curl -LO $address",
        "uvx pip-audit",
        "uv run script.py",
        "npm ci",
    ],
)
def test_an_install_that_is_not_locked_is_found(line: str) -> None:
    assert list(unlocked(line))


def test_the_installs_of_set_up_are_seen() -> None:
    text = "".join(path.read_text("utf-8") for path in SCRIPTS)
    for flag in ("--locked", "--require-hashes"):
        assert list(unlocked(text.replace(flag, "")))


@pytest.mark.parametrize("path", LOCKED_REQUIREMENTS, ids=lambda path: str(path.name))
def test_locked_requirements_have_a_version_and_hashes(path: Path) -> None:
    text = re.sub(r"^#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
    requirements = text.replace("\\\n", " ").strip().splitlines()
    assert requirements
    pinned = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+( ;.*?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [each for each in requirements if not pinned.fullmatch(each)] == []


def test_every_package_of_the_lock_is_a_wheel_with_a_hash() -> None:
    """No package is built at set-up, since the tools of a build are not locked."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    fetched = [each for each in packages if "registry" in each["source"]]
    assert len(fetched) > 200
    assert {kind for each in packages for kind in each["source"]} == {
        "registry",
        "editable",
        "virtual",
    }
    for package in fetched:
        assert package["wheels"], package["name"]
        files = [*package["wheels"], *([package["sdist"]] if "sdist" in package else [])]
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]


def test_pages_tell_to_install_only_the_distributions_of_this_project() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    installed = [
        name
        for page in pages
        for name in re.findall(r"pip install +[\"']?([\w.-]+)", page.read_text("utf-8"))
    ]
    assert installed
    assert {name for name in installed if name.partition("-")[0] != "atdp"} == set()


def test_the_bill_of_materials_has_every_package_and_jar_with_its_hash(tmp_path: Path) -> None:
    target = tmp_path / "sbom.json"
    subprocess.run([sys.executable, ROOT / ".ci/sbom", target], check=True, capture_output=True)
    document = json.loads(target.read_text("utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    purls = {each["purl"]: each for each in document["components"] if "purl" in each}
    names = {purl.partition(":")[2].partition("@")[0] for purl in purls}
    assert {
        "pypi/torch",
        "pypi/duckdb",
        "pypi/fastapi",
        "maven/org.apache.kafka/kafka-clients",
    } <= names
    assert "pypi/pytest" not in names, "tools of developers are not installed by users"
    assert sum(purl.startswith("pkg:maven/") for purl in purls) == len(locked_jars())
    for purl, component in purls.items():
        files = [component, *component.get("externalReferences", [])]
        hashes = [each["alg"] for file in files for each in file.get("hashes", [])]
        assert "SHA-256" in hashes, purl
    licensed = [purl for purl, component in purls.items() if component.get("licenses")]
    assert len(licensed) > len(names) // 2


@pytest.mark.parametrize(
    ("answered", "status", "verdict"),
    [(0, 0, "PASS"), (1, 1, "FAIL"), (2, 2, "INCONCLUSIVE"), (101, 2, "INCONCLUSIVE")],
)
def test_an_audit_passes_only_when_a_database_has_answered(
    tmp_path: Path, answered: int, status: int, verdict: str
) -> None:
    uv = tmp_path / "atdp/uv/bin/uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(f"#!/bin/sh\nexit {answered}\n")
    uv.chmod(0o755)
    environ = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [ROOT / ".ci/audit"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert f"audit: {verdict}" in done.stdout + done.stderr
