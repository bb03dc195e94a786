"""The running platform as the demo uses it: what was started, opened and created, in one place, and closed again."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx

from atdp.control import ReleaseFlow, ReleaseStore, open_flow
from atdp.governance import set_consent
from atdp.lakehouse import Lake, open_lake
from atdp.runtime import Home, KafkaSettings, KeyStore
from atdp.sdk import KafkaSender, Recorder
from atdp.stack import KafkaLog, Lag, stages, wait_until_read
from order_desk.agents import AGENT, ServiceDesk, Tenant
from order_desk.errors import DemoError
from order_desk.settings import MODEL, TENANTS, WITHDRAWN
from order_desk.tally import Tally

_LANDING_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A running stack with two tenants, one of which has withdrawn its consent to training."""

    home: Home
    kafka: KafkaSettings
    lake: Lake
    tenants: Mapping[str, Tenant]
    tally: Tally
    desk: ServiceDesk
    flow: ReleaseFlow
    log: KafkaLog

    def wait_until_landed(self, on_left: Callable[[int], None] = lambda _left: None) -> None:
        """Wait until everything emitted so far is governed and in the lake; `on_left` hears how many records are left.

        Raises:
            DemoError: it took too long.
        """

        def told(lags: Sequence[Lag]) -> None:
            on_left(sum(lag.waiting for lag in lags))

        missing = wait_until_read(
            self.log,
            stages(self.home, self.log),
            timeout_s=_LANDING_TIMEOUT_S,
            clock=time.monotonic,
            sleep=time.sleep,
            progress=told,
        )
        if missing:
            left = ", ".join(
                f"{lag.reader} has {lag.waiting} records of {lag.topic} left" for lag in missing
            )
            raise DemoError(
                f"not everything landed in {_LANDING_TIMEOUT_S:.0f} s: {left}; see the logs in {self.home.logs}"
            )


@contextmanager
def open_platform(home: Home, *, concurrency: int) -> Iterator[Platform]:
    """Open a running stack for the demo: keys for both tenants, the consent of one withdrawn, recorders, release flow."""
    endpoints = home.endpoints()
    set_consent(home.policies, WITHDRAWN, train="withdrawn")
    kafka, tally = KafkaSettings.from_env(home), Tally()
    with ExitStack() as opened:
        with KeyStore(home.keys_db) as keys:
            texts = {name: str(keys.create(name, "agent")[0]) for name in TENANTS}
        tenants = {name: _tenant(name, key, home, kafka, opened) for name, key in texts.items()}
        store = opened.enter_context(ReleaseStore(home.control))
        client = opened.enter_context(httpx.Client(trust_env=False))
        yield Platform(
            home=home,
            kafka=kafka,
            lake=open_lake(home),
            tenants=tenants,
            tally=tally,
            desk=ServiceDesk(
                gateway=endpoints["gateway"],
                tenants=tenants,
                tally=tally,
                model=MODEL,
                concurrency=concurrency,
            ),
            flow=open_flow(home, store, client, model=MODEL, actor="demo"),
            log=opened.enter_context(KafkaLog(kafka)),
        )


def _tenant(name: str, api_key: str, home: Home, kafka: KafkaSettings, opened: ExitStack) -> Tenant:
    recorder = Recorder(
        tenant=name,
        api_key=api_key,
        agent=AGENT,
        sender=KafkaSender(kafka.bootstrap, **kafka.extra),
        spool_dir=home.spool,
    )
    opened.callback(recorder.close)
    return Tenant(name=name, api_key=api_key, recorder=recorder)
