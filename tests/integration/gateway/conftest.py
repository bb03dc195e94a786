"""A gateway over an event log in memory, in front of an engine, both on real sockets."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from atdp.gateway import GatewaySettings, create_app
from atdp.gateway.event_log import EventLog, MemoryEventLog
from atdp.runtime.home import Home
from atdp.runtime.keys import KeyStore
from atdp.schemas import Event, SigningKey, decode, header, verify

from .fake_engine import fake_engine
from .serving import TLS, serving


@dataclass
class GatewayUnderTest:
    """A running gateway, what it logged, and keys for it."""

    url: str
    log: MemoryEventLog
    home: Home
    keys: KeyStore
    agent_key: str
    operator_key: str
    opened: contextlib.ExitStack
    """Clients to close when the test is over."""

    def http(self, key: str | None = None, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key or self.agent_key}", **headers},
            timeout=60,
        )

    def openai(self, key: str | None = None, **headers: str) -> openai.OpenAI:
        client = openai.OpenAI(
            base_url=self.url + "/v1",
            api_key=key or self.agent_key,
            default_headers=headers,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(verify=TLS),
        )
        self.opened.callback(client.close)
        return client

    def events(self, trajectory: str | None = None) -> list[Event]:
        """Events in the log, every signature checked."""
        found = []
        for record in self.log.records:
            signature = header(record.headers, "atdp-signature")
            key_id = header(record.headers, "atdp-key-id")
            assert signature
            assert key_id
            stored = self.keys.get(key_id.decode())
            assert stored
            assert verify(
                SigningKey(key_id=key_id.decode(), verifier=stored.verifier),
                record.value,
                signature,
            )
            event = decode(record.value)
            assert record.key == event.key
            if trajectory in (None, event.trajectory_id):
                found.append(event)
        return found


@dataclass
class EngineUnderTest:
    """A running engine: its URL, its model's name, and for the fake its application."""

    url: str
    model: str
    app: Any = None


@pytest.fixture(scope="session")
def engine_of_the_session() -> Iterator[EngineUnderTest]:
    """One fake engine for all tests."""
    app = fake_engine()
    with serving(app) as url:
        yield EngineUnderTest(url, "fake", app)


@pytest.fixture
def engine(engine_of_the_session: EngineUnderTest) -> EngineUnderTest:
    """A fake engine that was asked nothing yet."""
    engine_of_the_session.app.state.requests.clear()
    return engine_of_the_session


def start_gateway(home: Home, log: MemoryEventLog, engine_url: str, **changed: Any) -> Any:
    """A context manager that serves a gateway of `home`."""

    async def open_log() -> EventLog:
        return log

    return serving(
        create_app(GatewaySettings(home=home, engine=engine_url, **changed), open_log=open_log)
    )


@pytest.fixture
def gateway(tmp_path: Path, engine: EngineUnderTest) -> Iterator[GatewayUnderTest]:
    """A gateway with an agent's key of tenant acme and the operator's key."""
    home, log = Home(tmp_path), MemoryEventLog()
    with (
        KeyStore(home.keys_db) as keys,
        start_gateway(home, log, engine.url, max_body_bytes=200_000) as url,
    ):
        agent_key, _ = keys.create("acme", "agent")
        operator_key = keys.ensure_operator(home.operator_key_file)
        with contextlib.ExitStack() as opened:
            yield GatewayUnderTest(url, log, home, keys, agent_key, operator_key, opened)
