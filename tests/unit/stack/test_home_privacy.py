"""A home that others can read is closed at the next start, and told of until then."""

import os
from pathlib import Path

import pytest

from atdp.runtime import Home
from atdp.stack.home_privacy import close_to_others, open_to_others
from atdp.stack.home_setup import prepare_home


def open_paths(root: Path) -> list[str]:
    """Return what group or others may do anything with, in a home and the home itself."""
    return [
        str(path)
        for path in (root, *root.rglob("*"))
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ]


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A home as a version with the user's umask left it, with a link out of it."""
    root, outside = tmp_path / "home", tmp_path / "outside"
    (root / "kafka" / "data").mkdir(parents=True, mode=0o755)
    for file in (root / "kafka" / "data" / "0.log", root / "keys.sqlite", outside):
        file.touch()
        file.chmod(0o664)
    (root / "run.sh").touch()
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to(outside)
    for folder in (root, root / "kafka", root / "kafka" / "data"):
        folder.chmod(0o755)
    return root


def test_an_open_home_is_closed_with_everything_in_it(old_home: Path, tmp_path: Path) -> None:
    assert open_to_others(old_home)
    assert "5 files and folders" in (close_to_others(old_home) or "")
    assert open_paths(old_home) == []
    assert (old_home / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o664
    assert close_to_others(old_home) is None


def test_a_repair_that_was_interrupted_begins_again(
    old_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "chmod", _fail_at("keys.sqlite"))
        with pytest.raises(PermissionError):
            close_to_others(old_home)
    assert open_to_others(old_home)
    close_to_others(old_home)
    assert open_paths(old_home) == []


def _fail_at(name: str) -> object:
    chmod = Path.chmod

    def failing(path: Path, mode: int) -> None:
        if path.name == name:
            raise PermissionError(1, "Operation not permitted", str(path))
        chmod(path, mode)

    return failing


def test_a_new_home_lets_nobody_else_in(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        prepare_home(Home(tmp_path / "new" / "home"))
    finally:
        os.umask(before)
    assert not open_to_others(tmp_path / "new" / "home")
