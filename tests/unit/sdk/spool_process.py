"""A process that records events which nobody takes, to be killed, to fork, or to fill a disk.

Run as a script by test_spool_processes.py. It prints one JSON object a line: each event id behind
its emit, and last the ids that were refused. `--deliver` prints the ids that were left behind.
"""

import argparse
import json
import os
import signal
import threading
import time
import uuid
from pathlib import Path

from atdp.sdk import MemorySender, Recorder


def say(**fields: object) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")  # one write: other threads do the same


def recorder_of(spool: Path, verdict: str) -> tuple[Recorder, MemorySender]:
    sender = MemorySender(lambda _: verdict)  # type: ignore[arg-type,return-value]
    recorder = Recorder(
        tenant="acme",
        api_key="atdp_0123456789ab_secret-of-the-tests",
        sender=sender,
        spool_dir=spool,
        flush_at_exit_s=0,
    )
    return recorder, sender


def emit(recorder: Recorder, count: int, rate: float) -> None:
    trajectory = recorder.trajectory()
    for number in range(count):
        say(emitted=trajectory.act_message(f"{number} " + "x" * 1500))
        if rate:
            time.sleep(1 / rate)


def emit_in_threads(recorder: Recorder, threads: int, count: int) -> list[threading.Thread]:
    emitters = [threading.Thread(target=emit, args=(recorder, count, 0.0)) for _ in range(threads)]
    for each in emitters:
        each.start()
    return emitters


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spool", type=Path)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0, help="0: as fast as it goes")
    parser.add_argument("--end", choices=["kill", "report"], default="report")
    parser.add_argument("--threads", type=int, default=0, help="emit in these, and fork meanwhile")
    parser.add_argument("--deliver", action="store_true")
    options = parser.parse_args()
    recorder, sender = recorder_of(options.spool, "delivered" if options.deliver else "retry")
    if options.deliver:
        report = recorder.flush(60)
        ids = [str(uuid.UUID(bytes=record.record_id)) for record in sender.records]
        say(delivered=ids, damaged_bytes=report.damaged_bytes)
        return
    if options.threads:
        emitters = emit_in_threads(recorder, options.threads, options.count)
        if not os.fork():
            emit(recorder, options.count, 0.0)
            os._exit(0)
        for each in emitters:
            each.join()
        os.wait()
    else:
        emit(recorder, options.count, options.rate)
    if options.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    fates = recorder.flush(0).fates
    say(dropped=[event_id for event_id, fate in fates.items() if fate == "dropped"])


if __name__ == "__main__":
    main()
