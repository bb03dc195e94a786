"""The training run whose versions are candidates now.

There is one at a time. A version of it that is rejected or withdrawn ends it, so that no later
version is built on the bad one: the next run begins with the live version. A promoted version does
not end it; the run keeps its weights and its optimizer.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from atdp.runtime import write_durably
from atdp.stack.errors import LearningError


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A run of the trainer; `base` is the version that was live when it began."""

    number: int
    base: str
    training_digest: str
    """See `LearningSettings.training_digest`."""
    reason: str
    """The reason for beginning it."""

    @property
    def name(self) -> str:
        """The name of the run in the trainer and in the manifests of its versions."""
        return f"learn-{self.number}-{self.base}"

    def write(self, file: Path) -> None:
        """Make it the run of the home; it is on the disk when this returns."""
        write_durably(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Return the run of the home; None before the first.

        Raises:
            LearningError: the file cannot be read.
        """
        try:
            return cls(**json.loads(file.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise LearningError(
                f"{file} cannot be read ({error}); remove it, and a new run begins."
            ) from error
