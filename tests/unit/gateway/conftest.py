"""A recogniser over a store of its own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from .recognised_chats import Gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(tmp_path / "recognition.sqlite")
    with closing(made.store):
        yield made
