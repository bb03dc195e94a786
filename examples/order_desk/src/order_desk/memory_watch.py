"""The memory of the whole demo: every process of the stack, the trainer's, and the demo's own.

Resident memory of a process counts pages it shares with others, so the sum is an upper bound.
"""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import psutil

SAMPLE_EVERY_S = 1.0
"""A shorter peak may be missed. One sample costs about 5 ms."""


class MemoryWatch:
    """Samples the resident memory of a process and all its descendants in the background."""

    def __init__(
        self,
        *,
        every_s: float = SAMPLE_EVERY_S,
        sample: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Watch this process, unless `sample` gives bytes by name in another way."""
        self._every_s = every_s
        self._sample = sample or resident_by_process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self.peak_bytes = 0
        self.at_peak: Mapping[str, int] = {}
        """Bytes by process at the peak."""

    def __enter__(self) -> Self:
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()
        self.take_sample()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.take_sample()
            self._stop.wait(self._every_s)

    def take_sample(self) -> None:
        """Take one sample now."""
        sample = self._sample()
        total = sum(sample.values())
        if total > self.peak_bytes:
            self.peak_bytes, self.at_peak = total, sample


def resident_by_process() -> Mapping[str, int]:
    """Return the resident bytes of this process and its descendants, by a name for people."""
    this = psutil.Process()
    sizes: dict[str, int] = {}
    for process in [this, *this.children(recursive=True)]:
        try:
            name = "demo" if process == this else _name(process.cmdline())
            sizes[name] = sizes.get(name, 0) + process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return sizes


def _name(command: list[str]) -> str:
    text = " ".join(command)
    if "kafka.Kafka" in text:
        return "kafka"
    if "--name" in command[:-1]:
        return command[command.index("--name") + 1]
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1].removeprefix("atdp.")
    return command[0].rsplit("/", 1)[-1] if command else "other"
