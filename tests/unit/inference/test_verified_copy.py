"""What a worker loads is what was published, and its refusals say nothing about the machine."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from atdp.inference import write_weights_manifest
from atdp.inference.errors import WeightsRefused
from atdp.inference.worker.verified_copy import copy_verified

Damage = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish(tmp_path / "weights" / "desk" / "v1")
    return tmp_path / "weights"


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


def publish(directory: Path, weights: bytes = b"weights") -> None:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(weights)
    write_weights_manifest(directory, {"model": "desk", "version": "v1"})


def refusal(path: Path, root: Path, into: Path) -> str:
    with pytest.raises(WeightsRefused) as refused:
        copy_verified(path, (root,), into)
    return str(refused.value)


def test_the_copy_has_the_files_of_the_manifest_and_no_others(root: Path, into: Path) -> None:
    version = root / "desk" / "v1"
    (version / "generation_config.json").write_text("planted")
    manifest = copy_verified(version, (root,), into)
    assert {file.name for file in into.iterdir()} == {*manifest.files, "manifest.json"}
    assert "generation_config.json" not in manifest.files
    assert manifest.weights_sha256 == manifest.files["model.safetensors"]


def test_what_is_changed_after_the_verification_is_not_in_the_copy(root: Path, into: Path) -> None:
    version = root / "desk" / "v1"
    copy_verified(version, (root,), into)
    with (version / "model.safetensors").open("r+b") as file:
        file.write(b"EVIL")
    assert (into / "model.safetensors").read_bytes() == b"weights"


def test_a_path_outside_of_the_roots_gets_one_answer_whether_it_exists_or_not(
    root: Path, into: Path, tmp_path: Path
) -> None:
    publish(tmp_path / "evil")
    (root / "link").symlink_to(tmp_path / "evil")
    (root / "dangling").symlink_to(tmp_path / "nothing")
    paths = [
        tmp_path / "evil",
        tmp_path / "nothing",
        Path("/etc/passwd"),
        Path("/etc/shadow/nothing"),
        Path("relative"),
        root / ".." / "evil",
        root / "link",
        root / "link" / ".." / "evil",
        root / "dangling",
        root / "desk" / "v9",
        root / "desk" / "\0",
        root,
        Path(f"{root}-other"),
    ]
    answers = {refusal(path, root, into) for path in paths}
    assert len(answers) == 1
    assert str(tmp_path) not in answers.pop()
    assert list(into.iterdir()) == []


def test_a_root_that_is_reached_by_a_link_is_a_root(root: Path, into: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").symlink_to(root)
    copy_verified(tmp_path / "shared" / "desk" / "v1", (tmp_path / "shared",), into)


def replaced_by_a_link(version: Path) -> None:
    (version / "model.safetensors").rename(version / "away")
    (version / "model.safetensors").symlink_to(version / "away")


def replaced_by_a_pipe(version: Path) -> None:
    (version / "model.safetensors").unlink()
    os.mkfifo(version / "model.safetensors")


def manifest_with(**fields: object) -> Damage:
    def change(version: Path) -> None:
        manifest = json.loads((version / "manifest.json").read_text())
        (version / "manifest.json").write_text(json.dumps({**manifest, **fields}))

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda version: (version / "model.safetensors").write_bytes(b"others"),
        lambda version: (version / "config.json").write_text("[]"),
        lambda version: (version / "config.json").unlink(),
        lambda version: (version / "manifest.json").unlink(),
        lambda version: (version / "manifest.json").write_text("{"),
        replaced_by_a_link,
        replaced_by_a_pipe,
        manifest_with(sha256={}),
        manifest_with(sha256=None),
        manifest_with(sha256={"../v2/model.safetensors": "0" * 64}),
        manifest_with(sha256={"config.json": "0" * 64}),
        manifest_with(sha256={"model.safetensors": 7}),
        manifest_with(version=7),
        manifest_with(model=""),
    ],
)
def test_a_version_that_is_not_as_its_manifest_says_is_refused(
    root: Path, into: Path, damage: Damage
) -> None:
    damage(root / "desk" / "v1")
    assert str(root) not in refusal(root / "desk" / "v1", root, into)
