"""A lake of its own for each test, and a log to land events from."""

from pathlib import Path

import pytest

from atdp.lakehouse import Lake, open_lake
from atdp.lakehouse.testing import LogDouble


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "home")


@pytest.fixture
def log(lake: Lake) -> LogDouble:
    return LogDouble(lake)
