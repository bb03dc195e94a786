"""A file from which Java starts the broker in half the time: its classes, parsed and linked.

Java 25 and newer write it at the end of a run that was asked to (JEP 514), about 65 MB. `make
setup` makes it once, beside the jars. Java checks by itself that the file was made by the same Java
from the same jars; otherwise it starts without it, as it does when there is no file.
`atdp.stack.broker.archive_maker` makes it.
"""

import hashlib
from importlib.resources import files
from pathlib import Path

from atdp.stack.broker.java import Java

_OLDEST_MAJOR = 25


def startup_archive(java: Java, cache: Path) -> Path | None:
    """Return the path of the archive for a Java and the locked jars; None for an older Java.

    Another Java or other jars have an archive of another name, so that none has to be replaced.
    """
    release = java.executable.parent.parent / "release"
    if java.major < _OLDEST_MAJOR or not release.is_file():
        return None
    lock = files("atdp.stack.broker").joinpath("kafka_jars.toml").read_bytes()
    return cache / f"kafka-{hashlib.sha256(release.read_bytes() + lock).hexdigest()[:16]}.aot"


def archive_options(java: Java, cache: Path) -> list[str]:
    """Return the options with which Java uses the archive; none when there is no archive."""
    archive = startup_archive(java, cache)
    if archive is None or not archive.is_file():
        return []
    # A part of the archive that does not fit is left out. That is no news for the broker's log.
    return [f"-XX:AOTCache={archive}", "-Xlog:aot*=off"]
