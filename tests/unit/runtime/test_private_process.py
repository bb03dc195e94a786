"""Files, memory and dumps of a private process are for its user only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atdp.runtime import files_of_user, private_files

PROGRAM = """
import os, resource, sys
from pathlib import Path
from atdp.runtime import make_process_private
os.umask(0o022)
make_process_private()
Path(sys.argv[1], "file").write_text("secret")
os.mkdir(Path(sys.argv[1], "folder"))
print(resource.getrlimit(resource.RLIMIT_CORE), flush=True)
if sys.platform == "linux":
    import ctypes
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)  # PR_GET_DUMPABLE
os.execv("/bin/sh", ["sh", "-c", "umask; ulimit -c"])
"""


@pytest.fixture(autouse=True)
def _umask_of_a_usual_user() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def bits(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_private_process_and_its_children_give_nothing_to_others(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    dumpable = ["0"] if sys.platform == "linux" else []
    assert done.stdout.split("\n")[:-1] == ["(0, 0)", *dumpable, "0077", "0"]
    assert (bits(tmp_path / "file"), bits(tmp_path / "folder")) == (0o600, 0o700)


def test_a_command_makes_private_files_but_where_its_user_names_the_path(tmp_path: Path) -> None:
    with private_files():
        (tmp_path / "in home").touch()
        with files_of_user():
            (tmp_path / "report").touch()
        (tmp_path / "in home again").touch()
    (tmp_path / "after").touch()
    assert {path.name: bits(path) for path in tmp_path.iterdir()} == {
        "in home": 0o600,
        "report": 0o644,
        "in home again": 0o600,
        "after": 0o644,
    }


def test_the_umask_is_restored_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), private_files(), files_of_user():
        raise RuntimeError
    with files_of_user():  # outside of a command, nothing changes
        (tmp_path / "file").touch()
    assert bits(tmp_path / "file") == 0o644
