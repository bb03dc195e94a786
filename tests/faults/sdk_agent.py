"""An agent to be killed: it emits numbered events and reports each to its parent.

The report goes through a pipe after `emit` has returned.

Run as a script by test_sdk_*.py. Everything it says goes to standard output, one line per event;
the parent believes only whole lines.
"""

import argparse
import contextlib
import errno
import json
import os
import signal
import time
from pathlib import Path

from atdp.sdk import KafkaSender, Recorder


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def emit(recorder: Recorder, count: int, rate: float, die_after: int | None) -> None:
    trajectory = recorder.trajectory()
    for number in range(count):
        say(trajectory.act_message(f"{os.getpid()} {number} " + "x" * 1500))
        if number == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if rate:
            time.sleep(1 / rate)


def limit_disk(spool: Path, limit_bytes: int) -> None:
    """Let no file below `spool` be allocated beyond `limit_bytes` in all."""
    allocate = os.posix_fallocate

    def allocate_within_limit(fd: int, offset: int, size: int) -> None:
        held = sum(path.stat().st_size for path in spool.rglob("*") if path.is_file())
        if held + size > limit_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(fd, offset, size)

    os.posix_fallocate = allocate_within_limit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument(
        "--rate", type=float, default=0.0, help="events per second; 0 = as fast as it goes"
    )
    parser.add_argument("--die-after", type=int, help="SIGKILL oneself after this event")
    parser.add_argument("--fork-after", type=int, help="fork after this many events; both go on")
    parser.add_argument("--durability", default="process")
    parser.add_argument("--limit-bytes", type=int, default=1 << 30)
    parser.add_argument(
        "--disk-bytes",
        type=int,
        help="the spools of this process find no more room (a full disk)",
    )
    parser.add_argument("--flush-s", type=float, default=180.0)
    parser.add_argument(
        "--exit-flush-s", type=float, default=2.0, help="how long a normal exit waits for delivery"
    )
    parser.add_argument("--exit", choices=["flush", "return", "os._exit"], default="flush")
    options = parser.parse_args()
    if options.disk_bytes:
        limit_disk(options.spool, options.disk_bytes)
    recorder = Recorder(
        tenant="acme",
        api_key="atdp_0123456789ab_secret-of-the-tests",
        sender=KafkaSender(options.bootstrap, topic_name=options.topic),
        spool_dir=options.spool,
        durability=options.durability,
        spool_limit_bytes=options.limit_bytes,
        flush_at_exit_s=options.exit_flush_s,
    )
    child = None
    if options.fork_after is not None:
        emit(recorder, options.fork_after, options.rate, None)
        child = os.fork()
    emit(recorder, options.count, options.rate, options.die_after)
    if options.exit == "os._exit":
        os._exit(0)
    if options.exit == "flush":
        report = recorder.flush(options.flush_s)
        counts = {
            name: getattr(report, name)
            for name in ("delivered", "pending", "dropped", "failed", "recovered")
        }
        if child != 0:
            say("report " + json.dumps(counts))
    if child:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
