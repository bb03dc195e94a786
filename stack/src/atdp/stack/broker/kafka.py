"""One Apache Kafka broker on this machine: KRaft, a single node, loopback only, data kept between runs.

What holds: the storage is formatted once (a marker file is written after the format succeeded;
without it the folder is formatted anew, as no broker can have run on it). Ports stay the same
between runs. `start` returns when a client gets an answer. Records that a producer saw acknowledged
survive `kill -9` of the broker (they are in the system's page cache), not a power failure: one node
on one machine flushes at the system's leisure, as Kafka does by default.

From a shell: `python -m atdp.stack.broker.kafka --dir DIR [--port N]` prints the bootstrap address
and runs until SIGTERM.
"""

import argparse
import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from atdp.stack.broker.jars import Progress, cache_dir, ensure_jars
from atdp.stack.broker.java import Java, find_java
from atdp.stack.errors import BrokerFailed, HomeUnusable
from atdp.stack.ports import LOOPBACK, KeptPorts, is_free, is_listening
from atdp.stack.processes import Child
from atdp.stack.restarts import describe_exit

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# Unlike our services, a broker does not bound its own orderly end, and without a supervisor nobody
# else would. Nothing acknowledged is lost by a kill: records are in the files, and the next start
# recovers their indexes.
WHEN_ORPHANED = signal.SIGKILL
START_TIMEOUT_S = (
    90.0  # about 2 s alone on 2 cores; much more when a whole stack starts on a busy machine
)
STOP_TIMEOUT_S = 20.0  # a clean stop takes about 0.2 s; without it the next start replays the log
_LOG_TAIL_LINES = 25


class KafkaBroker:
    """A broker whose everything (data, configuration, logs, ports) lives in one folder."""

    def __init__(
        self,
        home_dir: Path,
        *,
        java: Java | None = None,
        jars: Sequence[Path] | None = None,
        port: int | None = None,
        heap_mb: int = 512,
        progress: Progress | None = None,
    ) -> None:
        """`port` fixes the client port; by default a free one is chosen and kept."""
        self.dir = home_dir.absolute()
        self._java = java
        self._jars = jars
        self._progress = progress
        self._heap_mb = heap_mb
        self._ports_file = KeptPorts(self.dir / "ports.json")
        self._ports: dict[str, int] | None = None
        if port is not None:
            self._ports_file.set("kafka", port)
        self._child: Child | None = None
        self._client: AdminClient | None = None

    # ------------------------------------------------------------------ places

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients; known after `prepare` or `start`."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def port(self) -> int:
        """The client port, which stays as long as this object, whatever becomes of the file."""
        return (self._ports or self._ports_file.read())["kafka"]

    @property
    def pid(self) -> int | None:
        """Process id while it runs as a child of this object."""
        return (
            self._child.pid if self._child is not None and self._child.exit_code() is None else None
        )

    @property
    def console_log(self) -> Path:
        """What the process wrote to standard output and error."""
        return self.dir / "logs" / "console.log"

    @property
    def server_log(self) -> Path:
        """The broker's own log, rotated."""
        return self.dir / "logs" / "server.log"

    # ------------------------------------------------------------------ preparing

    def prepare(self) -> None:
        """Fetch jars, claim ports and write the configuration; format the storage on first use.

        Raises PortTaken when a kept port belongs to another process by now.
        """
        java = self._java = self._java or find_java(os.environ)
        jars = self._jars = self._jars or ensure_jars(
            cache_dir(os.environ), progress=self._progress
        )
        try:
            for folder in ("conf", "logs"):
                (self.dir / folder).mkdir(parents=True, exist_ok=True)
            if self._ports is None:
                self._ports = self._ports_file.claim("kafka", "kafka-controller")
            else:  # clients were told these
                self._ports_file.require_free(self._ports)
            ports = self._ports
            self._write_configuration(ports["kafka"], ports["kafka-controller"])
            self._format_once(java, jars)
        except OSError as error:
            raise HomeUnusable(
                f"Cannot write the broker's folder {self.dir}: {error.strerror or error}. "
                "Free some space, or set ATDP_HOME to a folder you may write."
            ) from error

    def command(self) -> list[str]:
        """Prepare what is not prepared and give the command line that runs the broker."""
        self.prepare()
        assert self._java is not None
        assert self._jars is not None
        return [
            *self._jvm(self._java, self._jars),
            "kafka.Kafka",
            str(self.dir / "conf" / "server.properties"),
        ]

    def _jvm(self, java: Java, jars: Sequence[Path]) -> list[str]:
        native = ["--enable-native-access=ALL-UNNAMED"] if java.major >= 22 else []
        return [
            str(java.executable),
            "-Xms64m",
            f"-Xmx{self._heap_mb}m",
            # least memory and fewest threads; pauses of a 512 MB heap stay far under a session
            # timeout
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # starts faster and keeps the second core free
            *native,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.dir / 'conf' / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(str(jar) for jar in jars),
        ]

    def _write_configuration(self, port: int, controller_port: int) -> None:
        template = files("atdp.stack").joinpath("server.properties").read_text(encoding="utf-8")
        for name, value in {
            "PORT": port,
            "CONTROLLER": controller_port,
            "DATA": self.dir / "data",
        }.items():
            template = template.replace(f"@{name}@", str(value))
        (self.dir / "conf" / "server.properties").write_text(template, encoding="utf-8")
        logging = files("atdp.stack").joinpath("log4j2.properties").read_text(encoding="utf-8")
        (self.dir / "conf" / "log4j2.properties").write_text(
            logging.replace("@LOGS@", str(self.dir / "logs")), "utf-8"
        )

    def _format_once(self, java: Java, jars: Sequence[Path]) -> None:
        marker = self.dir / "formatted"
        if marker.exists():
            return
        shutil.rmtree(self.dir / "data", ignore_errors=True)
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
        if cluster_id.startswith("-"):  # the tool's option parser would take it for an option
            cluster_id = "A" + cluster_id[1:]
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            str(self.dir / "conf" / "server.properties"),
        ]
        done = subprocess.run(
            [*self._jvm(java, jars), *tool, "--standalone"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(
                f"Formatting {self.dir / 'data'} failed (exit "
                f"{done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        marker.write_text(cluster_id + "\n", encoding="utf-8")

    # ------------------------------------------------------------------ running

    def start(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Start and wait until a client gets an answer; gives the bootstrap address.

        Raises BrokerFailed with the end of the log when the process ends or does not answer in
        time.
        """
        command = self.command()
        self._child = Child(
            command, env=os.environ, log=self.console_log, when_orphaned=WHEN_ORPHANED
        )
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if (code := self._child.exit_code()) is not None:
                raise BrokerFailed(
                    f"The broker ended with {describe_exit(code)}.\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(
                    f"The broker did not answer within {timeout_s:.0f} s.\n{self.log_tail()}"
                )
            time.sleep(0.1)
        return self.bootstrap

    def is_ready(self) -> bool:
        """Tell whether a client gets an answer from the broker now."""
        if not is_listening(self.port):
            return False
        if (
            self._client is None
        ):  # kept: asked every second, and a client of its own starts five threads
            self._client = quiet_client(self.bootstrap)
        return answers(self._client)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """Stop cleanly (SIGTERM, after the timeout SIGKILL).

        Gives the exit code, None when it was not running.
        """
        if self._child is None:
            return None
        self._child.terminate()
        return self._child.wait(time.monotonic() + timeout_s)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        if self._child is not None:
            self._child.kill()

    def log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        """Give the end of the broker's logs with their places."""
        return "\n".join(
            f"--- end of {log}\n{tail(log, lines)}"
            for log in (self.server_log, self.console_log)
            if log.exists()
        )


def quiet_client(bootstrap: str, **settings: str) -> "AdminClient":
    """A client that says nothing on standard error while nobody answers, and notices at once when somebody does."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            **settings,
        }
    )


def answers(client: "AdminClient", timeout_s: float = 2.0) -> bool:
    """Tell whether a Kafka cluster answers a metadata request."""
    from confluent_kafka import KafkaException

    try:
        return bool(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def tail(file: Path, lines: int) -> str:
    """Give the last lines of a text file, empty when there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - 400 * lines))
            return "\n".join(stream.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one broker in the foreground until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(
        description="Run one local Kafka broker; prints its bootstrap address when it is ready."
    )
    parser.add_argument(
        "--dir", type=Path, required=True, help="folder for data, configuration and logs"
    )
    parser.add_argument("--port", type=int, help="client port (default: chosen once and kept)")
    options = parser.parse_args(arguments)
    broker = KafkaBroker(options.dir, port=options.port)
    if options.port is not None and not is_free(options.port):
        parser.error(f"port {options.port} is taken")
    stopping = [False]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.__setitem__(0, True))
    print(broker.start(), flush=True)  # noqa: T201
    while not stopping[0] and broker.pid is not None:
        with contextlib.suppress(InterruptedError):
            time.sleep(0.2)
    code = broker.stop()
    return 0 if stopping[0] else code or 1


if __name__ == "__main__":
    sys.exit(main())
