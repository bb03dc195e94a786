"""The broker's files and command lines: configuration, storage format, Java options."""

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from atdp.runtime import write_durably
from atdp.stack.broker.jars import cache_dir
from atdp.stack.broker.java import Java
from atdp.stack.broker.startup_archive import archive_options
from atdp.stack.errors import BrokerFailed

_HEAP_MB = 512
_NATIVE_ACCESS_SINCE = 22
"""From this Java on, `--enable-native-access` exists; without it, Java prints a warning."""


def java_command(folder: Path, java: Java, jars: Sequence[Path]) -> list[str]:
    """Return the command line of Java with the broker's classes, without a main class."""
    native = ["--enable-native-access=ALL-UNNAMED"] if java.major >= _NATIVE_ACCESS_SINCE else []
    return [
        str(java.executable),
        "-Xms64m",
        f"-Xmx{_HEAP_MB}m",
        # Least memory and fewest threads. The pauses of a 512 MB heap stay far below a session
        # timeout.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # starts faster and keeps the second core free
        *archive_options(java, cache_dir(os.environ)),
        *native,
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={folder / 'conf' / 'log4j2.properties'}",
        "-cp",
        os.pathsep.join(str(jar) for jar in jars),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfiguration:
    """The values of `server.properties` that differ between brokers."""

    port: int
    controller_port: int
    administrator: Mapping[str, str] | None = None
    """Login of the administrator (`sasl.username`, `sasl.password`), who makes all other users;
    None: the broker serves everybody without a password."""


def write_configuration(folder: Path, configuration: BrokerConfiguration) -> None:
    """Write `server.properties` and `log4j2.properties` below `folder`."""
    login = configuration.administrator
    values = {
        "PORT": str(configuration.port),
        "CONTROLLER": str(configuration.controller_port),
        "DATA": str(folder / "data"),
        "PROTOCOL": "PLAINTEXT" if login is None else "SASL_PLAINTEXT",
    }
    server = _filled("server.properties", values)
    if login is not None:
        users = {"USER": login["sasl.username"], "PASSWORD": login["sasl.password"]}
        server += _filled("authentication.properties", users)
    write_durably(folder / "conf" / "server.properties", server, mode=0o600)
    log = _filled("log4j2.properties", {"LOGS": str(folder / "logs")})
    (folder / "conf" / "log4j2.properties").write_text(log, encoding="utf-8")


def _filled(name: str, values: Mapping[str, str]) -> str:
    text = files("atdp.stack.broker").joinpath(name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def format_once(folder: Path, java: Sequence[str]) -> None:
    """Format the storage with the command line `java`, unless it is formatted already.

    The marker file is written after the format succeeded. Without it the folder is formatted again,
    since no broker can have run on it.

    Raises:
        BrokerFailed: the storage tool failed.
    """
    marker = folder / "formatted"
    if marker.exists():
        return
    shutil.rmtree(folder / "data", ignore_errors=True)
    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
    if cluster_id.startswith("-"):  # the tool would take it for an option
        cluster_id = "A" + cluster_id[1:]
    configuration = str(folder / "conf" / "server.properties")
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", configuration]
    done = subprocess.run(
        [*java, *tool, "--standalone"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BrokerFailed(
            f"Formatting {folder / 'data'} failed (exit {done.returncode}):\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    write_durably(marker, cluster_id + "\n")
