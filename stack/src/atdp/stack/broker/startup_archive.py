"""A file from which Java starts the broker in half the time: its classes, parsed and linked.

Java 25 and newer write it at the end of a run that was asked to (JEP 514), about 65 MB. `make
setup` makes it once, beside the jars. Java checks by itself that the file was made by the same Java
from the same jars; otherwise it starts without it, as it does when there is no file.

From a shell: `python -m atdp.stack.broker.startup_archive` makes it, unless it is there.
"""

import hashlib
import os
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

from atdp.stack.broker.jars import cache_dir
from atdp.stack.broker.java import Java, find_java
from atdp.stack.errors import StackError
from atdp.stack.processes import Child

_OLDEST_MAJOR = 25
_MAKE_TIMEOUT_S = 120.0


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


def make_archive(java: Java, archive: Path) -> bool:
    """Run a broker of its own once and keep what Java writes at its end; return False without it.

    Raises:
        StackError: the broker cannot be prepared.
    """
    # Imported here, because the broker itself uses the archive.
    from atdp.stack.broker.kafka import KafkaBroker

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=archive.parent) as folder:
        broker, made = KafkaBroker(Path(folder), java=java), Path(folder) / archive.name
        executable, *arguments = broker.command()
        child = Child(
            [executable, f"-XX:AOTCacheOutput={made}", *arguments],
            env=os.environ,
            log=broker.console_log,
        )
        deadline_s = time.monotonic() + _MAKE_TIMEOUT_S
        while child.exit_code() is None and time.monotonic() < deadline_s and not broker.is_ready():
            time.sleep(0.1)
        child.terminate()
        child.wait(deadline_s)
        if not made.is_file():
            return False
        made.replace(archive)
    return True


def main() -> int:
    """Make the archive, as `make setup` does; a broker also starts without it."""
    try:
        java = find_java(os.environ)
        archive = startup_archive(java, cache_dir(os.environ))
        if archive is not None and not archive.is_file():
            made = make_archive(java, archive)
            sys.stdout.write(f"{archive}\n" if made else "no archive: the broker starts slower\n")
    except (StackError, OSError) as error:
        sys.stdout.write(f"no archive, the broker starts slower: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
