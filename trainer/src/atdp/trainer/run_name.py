"""The name of a run, and its being one.

A run is named after what decides its result: algorithm, base, settings and selection. So the same
command finds the run that it began before it was killed, also without a name given, and goes on. A
name whose run has published is used up: the same command then begins another run, `…-2`, since what
it reads may have grown.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atdp.trainer.errors import TrainerError
from atdp.trainer.registry import Published, TrainingKind, WeightRegistry

_DIGITS = 10
"""Of the settings' hash in a name: 40 bits tell the runs of a model apart."""


class RunBusyError(TrainerError):
    """Another process is at this run."""


def settings_hash(*content: Any) -> str:
    """SHA-256 of values that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()


def unpublished_name(
    registry: WeightRegistry, model: str, kind: TrainingKind, base: Published | None, settings: str
) -> str:
    """The first name for these settings under which nothing has been published."""
    stem = f"{kind}-{base.version if base else 'new'}-{settings[:_DIGITS]}"
    name, number = stem, 1
    while registry.published_by(model, name) is not None:
        number += 1
        name = f"{stem}-{number}"
    return name


@contextmanager
def only_process(directory: Path) -> Iterator[None]:
    """Keep other processes off a run's directory for the duration of the block; a killed process keeps nobody off.

    Raises RunBusyError when another one is at it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunBusyError(
                f"another process is training run {directory.name!r}; wait for it, or give this one a name with --run"
            ) from error
        yield
