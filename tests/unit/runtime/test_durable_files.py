"""A file holds the complete old or the complete new content, whatever happens meanwhile."""

import os
import threading
from pathlib import Path

import pytest

from atdp.runtime import clear_directory, sync_directory, sync_tree, write_durably

from .killed_process import killed_process

REWRITE_FOR_EVER = """
import sys
from pathlib import Path
from atdp.runtime import write_durably
path = Path(sys.argv[1])
print("writing", flush=True)
turn = 0
while True:
    turn += 1
    write_durably(path, f"{turn} " * 20_000)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that reach the disk, in order: names of flushed files, and "rename"."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(handle: int) -> None:
        steps.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def recording_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    return steps


@pytest.mark.parametrize("content", ["text with é", b"\x00bytes", ""])
def test_the_content_replaces_what_was_there(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    write_durably(file, content)
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


def test_the_content_is_flushed_before_the_rename_and_the_directory_after_it(
    tmp_path: Path, flushed: list[str]
) -> None:
    write_durably(tmp_path / "file", "new")
    assert flushed[0].startswith(".file.")
    assert flushed[0].endswith(".tmp")
    assert flushed[1:] == ["rename", tmp_path.name]


def test_missing_directories_are_created_and_their_entries_flushed(
    tmp_path: Path, flushed: list[str]
) -> None:
    write_durably(tmp_path / "a" / "b" / "file", "new")
    assert (tmp_path / "a" / "b" / "file").read_text() == "new"
    assert {tmp_path.name, "a", "b"} <= set(flushed)


@pytest.mark.parametrize(("mode", "umask", "bits"), [(0o600, 0o022, 0o600), (0o666, 0o027, 0o640)])
def test_the_mode_is_that_of_the_caller_less_the_umask(
    tmp_path: Path, mode: int, umask: int, bits: int
) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o604)
    before = os.umask(umask)
    try:
        write_durably(file, "new", mode=mode)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == bits


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def broken(*_arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, step, broken)
    with pytest.raises(OSError, match="no space left"):
        write_durably(file, "new")
    assert file.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "file"
    contents = [f"{number} " * 5_000 for number in range(4)]
    wrong: list[str] = []

    def write(content: str) -> None:
        for _ in range(20):
            write_durably(file, content)
            if (text := file.read_text()) not in contents:
                wrong.append(text)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert names(tmp_path) == ["file"]


def test_a_writer_that_is_killed_leaves_complete_content(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with killed_process(REWRITE_FOR_EVER, str(file)) as process:
        while not file.exists():
            assert process.poll() is None
    turns = file.read_text().split()
    assert len(turns) == 20_000
    assert len(set(turns)) == 1
    assert [name for name in names(tmp_path) if not name.startswith(".")] == ["file"]


def test_a_directory_cannot_be_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_durably(tmp_path / "folder", "new")
    assert names(tmp_path) == ["folder"]


def test_a_tree_is_flushed_completely_and_links_are_not_followed(
    tmp_path: Path, flushed: list[str]
) -> None:
    tree = tmp_path / "tree"
    (tree / "inside").mkdir(parents=True)
    (tree / "one").write_text("1")
    (tree / "inside" / "two").write_text("2")
    (tree / "dangling").symlink_to(tmp_path / "nowhere")
    (tree / "outside").symlink_to(tmp_path)
    os.mkfifo(tree / "pipe")
    sync_tree(tree)
    assert sorted(flushed) == ["inside", "one", "tree", "two"]


def test_what_is_no_directory_is_an_error(tmp_path: Path) -> None:
    for function in (sync_directory, sync_tree):
        with pytest.raises(OSError, match="missing"):
            function(tmp_path / "missing")


def test_a_cleared_directory_is_empty_and_new_ones_are_created(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    clear_directory(folder)
    (folder / "file").write_text("x")
    (folder / "inside").mkdir()
    clear_directory(folder)
    assert names(folder) == []


def test_a_file_is_not_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        clear_directory(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"
