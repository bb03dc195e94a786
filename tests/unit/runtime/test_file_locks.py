"""A lock has one holder (or several that share it), and is free when the holder is gone."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from atdp.runtime import locked, try_lock

from .killed_process import killed_process

HOLD_FOR_EVER = """
import sys, time
from pathlib import Path
from atdp.runtime import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def is_free(file: Path) -> bool:
    handle = try_lock(file)
    if handle is None:
        return False
    handle.close()
    return True


def test_the_block_holds_the_lock_and_gives_it_back(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "lock"
    with locked(file):
        assert not is_free(file)
    assert is_free(file)
    assert file.read_bytes() == b""


def test_an_error_in_the_block_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path / "lock"):
        raise RuntimeError("broken")
    assert is_free(tmp_path / "lock")


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    inside: list[str] = []

    def work() -> None:
        for _ in range(50):
            with locked(tmp_path / "lock"):
                inside.append("in")
                time.sleep(0)
                inside.append("out")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == ["in", "out"] * 200


def test_a_lock_is_free_when_its_holder_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with killed_process(HOLD_FOR_EVER, str(file)):
        assert not is_free(file)
    assert is_free(file)


def test_shared_holders_exclude_only_an_exclusive_one(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    first, second = try_lock(file, shared=True), try_lock(file, shared=True)
    assert first is not None
    assert second is not None
    assert not is_free(file)
    first.close()
    assert not is_free(file)
    second.close()
    with locked(file):
        assert try_lock(file, shared=True) is None


def test_a_program_that_is_started_does_not_inherit_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_free(tmp_path / "lock")
    finally:
        child.communicate(b"\n")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_neither_keeps_nor_releases_the_lock_of_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    to_parent, to_child = os.pipe(), os.pipe()
    child = 0
    try:
        with locked(file):
            child = os.fork()
            if child == 0:
                raise KeyboardInterrupt  # leaves the block, as any error in a child may
            assert os.read(to_parent[0], 1) == b"l"  # the child has left the block
            assert not is_free(file)
        assert is_free(file)  # the child still runs, and holds a copy of nothing
    except KeyboardInterrupt:
        os.write(to_parent[1], b"l")
        os.read(to_child[0], 1)
        os._exit(0)
    finally:
        if child:
            os.write(to_child[1], b"x")
            os.waitpid(child, 0)
            for end in (*to_parent, *to_child):
                os.close(end)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_in_the_block_does_not_keep_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    wait, go = os.pipe()
    with locked(file):
        child = os.fork()
        if child == 0:
            os.read(wait, 1)
            os._exit(0)
    try:
        assert is_free(file)
    finally:
        os.write(go, b"x")
        os.waitpid(child, 0)
        os.close(wait)
        os.close(go)


def test_a_lock_that_cannot_be_taken_for_another_reason_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(OSError, match="no locks available"):
        try_lock(tmp_path / "lock")


def test_lock_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_shared_lock_is_asked_for_without_writing(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("1234", "utf-8")
    holder = try_lock(file, shared=True)
    assert holder is not None
    with holder:
        assert not holder.writable()
        assert try_lock(file) is None
    assert file.read_text("utf-8") == "1234"


def test_a_lock_file_is_for_its_user_only(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        handle = try_lock(tmp_path / "lock")
    finally:
        os.umask(umask)
    assert handle is not None
    handle.close()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
