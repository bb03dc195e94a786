"""The choice of the Java runtime."""

from pathlib import Path

import pytest

from atdp.stack.broker.java import find_java, major_version
from atdp.stack.errors import JavaUnsuitable


def java_home(folder: Path, release: str) -> dict[str, str]:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(release)
    return {"JAVA_HOME": str(folder)}


def test_without_java_home_the_bundled_runtime_is_used() -> None:
    java = find_java({})
    assert java.executable.is_file()
    assert java.major >= 17


def test_a_java_home_that_is_new_enough_is_preferred(tmp_path: Path) -> None:
    java = find_java(java_home(tmp_path, 'JAVA_VERSION="17.0.15"\n'))
    assert (java.executable, java.major) == (tmp_path / "bin" / "java", 17)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "16"])
def test_a_java_home_that_is_too_old_is_refused_with_advice(tmp_path: Path, version: str) -> None:
    with pytest.raises(JavaUnsuitable, match=r"needs 17 or newer.*Unset JAVA_HOME"):
        find_java(java_home(tmp_path, f'JAVA_VERSION="{version}"\n'))


def test_a_java_home_without_java_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(JavaUnsuitable, match="there is no"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_says_nothing_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JavaUnsuitable, match="Cannot read the version"):
        find_java(java_home(tmp_path, "nothing here"))


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "25.0.2" 2026-01-20', 25),
        ('java version "1.8.0_392"', 8),
        ('IMPLEMENTOR="X"\nJAVA_VERSION="21"', 21),
        ("no java", None),
    ],
)
def test_the_major_version_is_read_from_what_java_says(text: str, major: int | None) -> None:
    assert major_version(text) == major
