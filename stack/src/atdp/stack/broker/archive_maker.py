"""Makes the file from which Java starts the broker in half the time.

From a shell: `python -m atdp.stack.broker.archive_maker` makes it, unless it is there.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from atdp.runtime import new_kafka_login
from atdp.schemas import all_kafka_principals
from atdp.stack.broker.jars import cache_dir
from atdp.stack.broker.java import Java, find_java
from atdp.stack.broker.kafka import KafkaBroker
from atdp.stack.broker.startup_archive import startup_archive
from atdp.stack.errors import StackError
from atdp.stack.processes import Child

_MAKE_TIMEOUT_S = 120.0


def make_archive(java: Java, archive: Path) -> bool:
    """Run a broker of its own once and keep what Java writes at its end; return False without it.

    Raises:
        StackError: the broker cannot be prepared.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=archive.parent) as folder:
        # It asks for passwords as the broker of a stack does, so that it loads the same classes.
        login = new_kafka_login(all_kafka_principals()["admin"])
        broker = KafkaBroker(Path(folder), java=java, administrator=login)
        made = Path(folder) / archive.name
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
