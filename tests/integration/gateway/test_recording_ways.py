"""The examples of the page on the ways to record, unchanged: each records the conversation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from atdp.schemas import Event, Observation

from .conftest import GatewayUnderTest

PAGE = Path(__file__).parents[3] / "docs/how-to/choose-how-to-record.md"
EXAMPLES = {
    section.partition("\n")[0]: code
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")
    for code in re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
}


def observed(events: list[Event]) -> list[str | None]:
    """Return the texts that the agent was shown."""
    return [
        part.text
        for event in events
        if isinstance(event.body, Observation)
        for message in event.body.messages
        for part in message.parts
    ]


@pytest.mark.parametrize("way", EXAMPLES)
def test_an_example_records_the_conversation_as_one_trajectory(
    way: str, gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    address = {"ATDP_GATEWAY_URL": gateway.url, "ATDP_API_KEY": gateway.agent_key}
    subprocess.run(
        [sys.executable, "-c", EXAMPLES[way]],
        cwd=tmp_path,
        env={**os.environ, **address, "ATDP_HOME": str(tmp_path / "home")},
        check=True,
        timeout=120,
    )
    events = gateway.events()
    assert len({event.trajectory_id for event in events}) == 1
    assert observed(events) == ["7 rope?"]
    assert {event.kind for event in events} >= {"trajectory_started", "observation", "action"}


def test_the_page_has_an_example_of_each_way() -> None:
    assert list(EXAMPLES) == ["With the SDK", "Through the proxy", "From files"]
