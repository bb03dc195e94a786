"""These tests have no broker: lakes ask a register in memory."""

import pytest
from tests.conftest import RegisterOf


@pytest.fixture(scope="module", autouse=True)
def _without_a_broker(memory_registers: RegisterOf) -> None:
    """See `memory_registers`."""
