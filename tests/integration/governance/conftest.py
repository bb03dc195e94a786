"""The rig of a test, removed after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .rig import Rig, new_rig


@pytest.fixture
def rig(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Rig]:
    made = new_rig(kafka_bootstrap, tmp_path, "it")
    try:
        yield made
    finally:
        made.close()
