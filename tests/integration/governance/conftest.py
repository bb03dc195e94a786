"""The rig of a test, removed after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atdp.governance.policy.templates import template_text

from .rig import Rig, new_rig


@pytest.fixture
def rig(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Rig]:
    made = new_rig(kafka_bootstrap, tmp_path, "it")
    made.activate(template_text("demo"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def rig_without_policy(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Rig]:
    made = new_rig(kafka_bootstrap, tmp_path, "it")
    try:
        yield made
    finally:
        made.close()
