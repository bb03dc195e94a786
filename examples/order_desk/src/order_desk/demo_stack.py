"""A stack for the life of the demo: started as a child, stopped however the demo ends.

The supervisor is tethered to this process: were the demo killed, the kernel would end the
supervisor, and that its services.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from atdp.runtime import Home
from atdp.stack import Ledger, tether
from order_desk.errors import DemoError

START_TIMEOUT_S = 300.0
"""Starting takes about 15 s; on a machine under load, much longer."""
_STOP_TIMEOUT_S = 90.0


@contextlib.contextmanager
def running_stack(
    home: Home, environ: Mapping[str, str], report: Callable[[str], None]
) -> Iterator[None]:
    """Start the stack of `home`; on leaving, stop it and wait for its end.

    Call from the main thread.

    Raises:
        DemoError: it does not come up; the message holds what the supervisor said.
    """
    log = home.logs / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-I",
                    "-S",
                    str(tether.__file__),
                    str(os.getpid()),
                    str(int(signal.SIGTERM)),
                ),
                *(sys.executable, "-m", "atdp.stack.local", "--home", str(home.root)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**environ, "ATDP_HOME": str(home.root)},
        )
    try:
        _wait_until_up(process, home, report)
        yield
    finally:
        _stop(process)


def _wait_until_up(
    process: subprocess.Popen[bytes], home: Home, report: Callable[[str], None]
) -> None:
    ledger, deadline, said = Ledger(home), time.monotonic() + START_TIMEOUT_S, ""
    while True:
        if process.poll() is not None:
            raise DemoError(f"the stack did not start: {_last_words(home)}")
        stack = ledger.read()
        if stack is not None and stack.pid == process.pid:
            if stack.up:
                return
            waiting = [service.name for service in stack.services if service.phase != "ready"]
            if waiting and ", ".join(waiting) != said:
                said = ", ".join(waiting)
                report(f"waiting for {said}")
        if time.monotonic() > deadline:
            raise DemoError(
                f"the stack was not up after {START_TIMEOUT_S:.0f} s; logs are in {home.logs}"
            )
        time.sleep(0.1)


def _last_words(home: Home) -> str:
    text = (home.logs / "supervisor.log").read_text("utf-8", "replace")
    at = text.rfind("error: ")
    return text[at + len("error: ") :].strip() if at >= 0 else text[-2000:].strip()


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # Its services are tethered to it and end with it.
        process.kill()
        process.wait()
