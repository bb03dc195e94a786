"""The file from which Java starts the broker sooner."""

import subprocess
from pathlib import Path

import pytest

from atdp.stack.broker.java import Java, find_java
from atdp.stack.broker.startup_archive import archive_options, startup_archive


def test_there_is_no_option_without_the_file_and_none_for_an_older_java(tmp_path: Path) -> None:
    java = find_java({})
    archive = startup_archive(java, tmp_path)
    assert archive is not None
    assert archive_options(java, tmp_path) == []
    archive.touch()
    assert archive_options(java, tmp_path)[0] == f"-XX:AOTCache={archive}"
    assert archive_options(Java(executable=java.executable, major=21), tmp_path) == []


def test_another_java_has_an_archive_of_another_name(tmp_path: Path) -> None:
    names = set()
    for version in ("25.0.2", "25.0.3"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "release").write_text(f'JAVA_VERSION="{version}"\n')
        java = Java(executable=tmp_path / version / "bin" / "java", major=25)
        names.add(startup_archive(java, tmp_path))
    assert len(names - {None}) == 2


@pytest.mark.parametrize("content", [b"", b"no archive", b"\xf0\x0b\xa2\xab" * 1024])
def test_java_starts_without_an_archive_that_it_cannot_use(tmp_path: Path, content: bytes) -> None:
    java = find_java({})
    archive = startup_archive(java, tmp_path)
    assert archive is not None
    archive.write_bytes(content)
    done = subprocess.run(
        [str(java.executable), *archive_options(java, tmp_path), "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "openjdk" in done.stderr
