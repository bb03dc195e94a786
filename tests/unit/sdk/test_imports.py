"""A process that records events imports little. Modules are counted, not milliseconds."""

import json
import subprocess
import sys

import pytest

RECORD = """
from atdp.sdk import MemorySender, Recorder, init, observe
recorder = Recorder(
    tenant="acme", api_key="atdp_0123456789ab_x", agent="desk", sender=MemorySender(),
    durability="memory",
)
with recorder.trajectory() as trajectory:
    trajectory.observe([{"role": "user", "content": "7 rope?"}])
    trajectory.act_message("That is 91.")
assert recorder.flush().complete
recorder.close()
"""
HEAVY = {
    "asyncio",
    "cffi",
    "concurrent.futures",
    "confluent_kafka",
    "cryptography",
    "email",
    "fastavro",
    "http",
    "importlib.resources",
    "ssl",
    "subprocess",
    "tempfile",
    "unittest",
}
"""Each takes 3 to 30 ms of CPU. Kafka, HTTP, signatures and decoding need them, recording does not.
"""


def imported_by(program: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter holds after a program."""
    program += "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("program", "most"), [("import atdp.schemas", 40), ("import atdp.sdk", 60), (RECORD, 180)]
)
def test_recording_imports_no_heavy_module(program: str, most: int) -> None:
    modules = imported_by(program) - imported_by("")
    assert modules & HEAVY == set()
    assert len(modules) <= most


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("KafkaSender", "confluent_kafka"),
        ("GatewaySender", "http"),
    ],
)
def test_a_sender_brings_what_it_needs(name: str, module: str) -> None:
    assert module in imported_by(f"from atdp.sdk import {name}")


def test_a_sender_to_kafka_without_its_extra_says_what_to_install() -> None:
    program = """
import sys
sys.modules["confluent_kafka"] = None
from atdp.sdk import Recorder
from atdp.sdk import KafkaSender
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1].endswith("pip install 'atdp-sdk[kafka]'")
