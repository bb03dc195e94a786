"""The stack of one home put together: `atdp up` and `atdp down`.

With `ATDP_KAFKA_BOOTSTRAP` set, no broker is started and everything points at that cluster.
Otherwise the broker is a service like the others, only first.

`python -m atdp.stack.local --home DIR` runs the stack in the foreground without a terminal; that is
what `atdp up --detach` starts.
"""

import argparse
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from atdp.governance import GovernanceError
from atdp.runtime import Home, JsonFormatter, KafkaSettings, PlatformError, setup_logging
from atdp.stack.broker.jars import Progress
from atdp.stack.broker.kafka import WHEN_ORPHANED, KafkaBroker, answers, quiet_client, tail
from atdp.stack.errors import NotRunning, StackError
from atdp.stack.ledger import Ledger, unwritable
from atdp.stack.ports import KeptPorts
from atdp.stack.processes import ProcessId, end_leftovers
from atdp.stack.provision import provision
from atdp.stack.services import Probe, Service, python_services, service_environment, service_names
from atdp.stack.supervisor import Supervisor, clear_leftovers, stop_signals
from atdp.stack.topics import ensure_topics

Report = Callable[[str], None]
_log = logging.getLogger("atdp.supervisor")


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The stack of `home` under the settings of `environ`."""

    home: Home
    environ: Mapping[str, str]

    @property
    def ledger(self) -> Ledger:
        """What the running stack says about itself."""
        return Ledger(self.home)

    @property
    def external_kafka(self) -> str | None:
        """Address of the cluster that replaces the local broker; None when there is none."""
        return self.environ.get("ATDP_KAFKA_BOOTSTRAP") or None

    def log_to_file(self) -> None:
        """Send the supervisor's own log to `logs/supervisor.log`, for use from a terminal."""
        try:
            self.home.logs.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(self.home.logs / "supervisor.log", encoding="utf-8")
        except OSError as error:
            raise unwritable(self.home.root, error) from error
        handler.setFormatter(JsonFormatter("supervisor"))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
        _log.propagate = False

    def run(self, report: Report, progress: Progress | None = None) -> None:
        """Bring the stack up and watch it until SIGINT, SIGTERM or SIGHUP; nothing is left running after.

        Raises AlreadyRunning, HomeUnusable, PortTaken, JavaUnsuitable, JarsUnavailable or another
        StackError.
        """
        lock = self.ledger.acquire()
        try:
            clear_leftovers(self.ledger, report)
            provision(self.home)
            supervisor = Supervisor(
                self.ledger,
                self._plan(report, progress),
                environ=service_environment(self.home, self.environ),
                report=report,
            )
            with stop_signals(supervisor):
                supervisor.run()
        finally:
            # Nobody is there any more: who asks now shall hear so at once instead of waiting for an
            # answer.
            self.home.endpoints_file.unlink(missing_ok=True)
            lock.close()

    def _plan(self, report: Report, progress: Progress | None) -> list[Service]:
        ports = KeptPorts(self.home.run / "ports.json").claim(*service_names())
        endpoints = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        if self.external_kafka is not None:
            settings = KafkaSettings.from_env(self.home, self.environ)
            security = {name: str(value) for name, value in settings.extra.items()}
            if not answers(quiet_client(settings.bootstrap, **security), timeout_s=15.0):
                raise StackError(
                    f"No Kafka cluster answers at {settings.bootstrap} (ATDP_KAFKA_BOOTSTRAP). "
                    "Check the address and the security settings, or unset it to run a broker here."
                )
            self.ledger.publish_endpoints({"kafka": settings.bootstrap, **endpoints})
            _ensure_topics(settings, -1, report)
            return python_services(self.home, ports, after=())
        broker = KafkaBroker(self.home.kafka, progress=progress)
        broker.prepare()
        self.ledger.publish_endpoints({"kafka": broker.bootstrap, **endpoints})
        settings = KafkaSettings.from_env(self.home, self.environ)
        kafka = Service(
            name="kafka",
            command=broker.command,
            probe=lambda: _look_at(broker),
            log=broker.console_log,
            port=broker.port,
            wave=0,
            when_orphaned=WHEN_ORPHANED,
            on_ready=lambda: _ensure_topics(settings, 1, report),
            log_tail=broker.log_tail,
        )
        return [kafka, *python_services(self.home, ports, after=("kafka",))]

    def detach(self, report: Report) -> None:
        """Have the stack up when this returns: started in a process of its own, unless one is up already.

        One that somebody else is starting is waited for; when that one ends instead (it failed, or
        was just being stopped), the stack is started here. Raises StackError when it does not come
        up.
        """
        if self._is_up_by_another(report):
            return
        log = self.home.logs / "supervisor.log"
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as stream:
                start = stream.tell()
                process = subprocess.Popen(
                    [sys.executable, "-m", "atdp.stack.local", "--home", str(self.home.root)],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=dict(self.environ),
                )
        except OSError as error:
            raise unwritable(self.home.root, error) from error
        self._follow(process, log, start, report)

    def _is_up_by_another(self, report: Report) -> bool:
        told = None
        while (pid := self.ledger.supervisor_pid()) is not None:
            stack = self.ledger.read()
            if stack is not None and stack.pid == pid and stack.serves():
                report(f"already running (supervisor {pid})")
                return True
            if pid != told:
                report(f"supervisor {pid} is starting or stopping; waiting for it")
                told = pid
            time.sleep(0.1)
        return False

    def _follow(
        self, process: "subprocess.Popen[bytes]", log: Path, start: int, report: Report
    ) -> None:
        while True:
            ended = process.poll()
            with log.open("rb") as stream:
                stream.seek(start)
                said = stream.read()
            complete = said[: said.rfind(b"\n") + 1]
            start += len(complete)
            for line in complete.decode("utf-8", "replace").splitlines():
                if line.startswith(_SAID):
                    report(line.removeprefix(_SAID))
            if ended is not None:
                if self._is_up_by_another(report):  # which was quicker
                    return
                raise StackError(f"The stack did not start. {_failure(log)}")
            stack = self.ledger.read()
            if stack is not None and stack.up and stack.pid == process.pid:
                return
            time.sleep(0.1)

    def down(self, report: Report, timeout_s: float = 90.0) -> None:
        """Stop the stack and wait for its end; raises NotRunning when there was nothing to stop."""
        ledger = self.ledger
        stack = ledger.read()
        pid = ledger.supervisor_pid()
        if pid is None:
            ended = end_leftovers(stack.processes()) if stack is not None else []
            if not ended:
                raise NotRunning(f"No stack of {self.home.root} is running. `atdp up` starts one.")
            report(f"the supervisor was gone; ended {len(ended)} process(es) it had left")
            return
        try:
            supervisor = psutil.Process(pid)
            supervisor.terminate()
            # Its end, not only that of its services: after `down`, nothing of the stack is there
            # any more.
            supervisor.wait(timeout_s)
        except psutil.NoSuchProcess:
            return
        except psutil.TimeoutExpired:
            report(
                f"supervisor {pid} did not end within {timeout_s:.0f} s: killing it and its services"
            )
            stack = ledger.read()
            end_leftovers(
                [ProcessId(pid=stack.pid, created=stack.created), *stack.processes()]
                if stack is not None
                else []
            )


# What marks the lines of the supervisor's log that are meant for people.
_SAID = "atdp: "
_FAILED = "error: "


def _failure(log: Path) -> str:
    text = tail(log, 60)
    at = text.rfind(_FAILED)
    return text[at + len(_FAILED) :] if at >= 0 else f"End of {log}:\n{text}"


def _look_at(broker: KafkaBroker) -> Probe:
    ready = broker.is_ready()
    return Probe(live=ready, ready=ready, reason="" if ready else "does not answer yet")


def _ensure_topics(settings: KafkaSettings, replication: int, report: Report) -> None:
    for difference in ensure_topics(settings, replication=replication):
        report(f"topic differs from its definition: {difference}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stack of a home in the foreground, logging to standard error."""
    parser = argparse.ArgumentParser(description="Run the local stack of a home until SIGTERM.")
    parser.add_argument("--home", type=Path, required=True)
    options = parser.parse_args(arguments)
    setup_logging("supervisor")
    try:
        Stack(home=Home(options.home.resolve()), environ=os.environ).run(
            lambda line: _say(f"{_SAID}{line}")
        )
    except (StackError, GovernanceError, PlatformError) as error:
        _say(f"{_FAILED}{error}")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
