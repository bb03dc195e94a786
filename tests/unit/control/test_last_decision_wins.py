"""Two processes act on one stack, one of them still for a decision that has been overruled.

Threads stand for processes: each has its own store, and the locks are files.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from atdp.control import CanaryCounts, Manifest, ReleaseFlow, ReleaseStore, RouteTable, effects
from atdp.replay import ReplayReport

ManifestOf = Callable[[str], Manifest]
ReportOf = Callable[..., ReplayReport]
DEADLINE_S = 30.0


class SlowFleet:
    """An engine that takes a load only when told to, and until then says that it serves what it had."""

    def __init__(self, stack: Any, slow: str) -> None:
        self.stack = stack
        self.slow = slow
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.served_wrongly: list[str] = []

    def serves(self, engine: str, model: str, version: str) -> bool:
        return self.stack.serves(engine, model, version)  # type: ignore[no-any-return]

    def load(self, engine: str, model: str, version: str) -> None:
        if version == self.slow:
            self.began.set()
            assert self.may_end.wait(DEADLINE_S)
        stable = self.stack.table.stable
        if stable.engine == engine and stable.version != version:
            self.served_wrongly.append(f"{version} to the customers of {stable.version}")
        self.stack.load(engine, model, version)


@pytest.fixture
def open_flow(flow: ReleaseFlow) -> Iterator[Callable[..., ReleaseFlow]]:
    with ExitStack() as stores:

        def opened(**changes: Any) -> ReleaseFlow:
            store = stores.enter_context(ReleaseStore(flow.store.path.parent))
            return replace(flow, store=store, outbox=None, **changes)

        yield opened


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run something beside the block; what it raises is raised at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised again below)
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    if raised:
        raise raised[0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def through_the_gate(
    flow: ReleaseFlow, version: str, baseline: str, m: ManifestOf, r: ReportOf
) -> None:
    flow.register_candidate(m(version))
    flow.record_gate(r(version, baseline=baseline))


def roll_back_a_canary_that_is_loading(
    flow: ReleaseFlow, stack: Any, open_flow: Callable[..., ReleaseFlow], m: ManifestOf, r: ReportOf
) -> None:
    flow.bootstrap(m("v1"), tenants=("acme", "globex"), reason="first")
    through_the_gate(flow, "v2", "v1", m, r)
    slow = SlowFleet(stack, "v2")
    with meanwhile(lambda: open_flow(fleet=slow).start_canary("v2", share=0.5)):
        assert slow.began.wait(DEADLINE_S)
        flow.roll_back("v2", reason="stop it")  # returns although the load goes on
        assert stack.table == RouteTable(stable=stack.table.stable)
        slow.may_end.set()


def test_a_canary_rolled_back_while_it_loads_gets_no_session(
    flow: ReleaseFlow, stack: Any, open_flow: Any, manifest_of: ManifestOf, report_of: ReportOf
) -> None:
    roll_back_a_canary_that_is_loading(flow, stack, open_flow, manifest_of, report_of)
    assert [d.type for d in flow.history()][-2:] == ["CanaryStarted", "CanaryRolledBack"]
    assert stack.table.canary is None


def test_without_reading_the_line_again_it_would(
    flow: ReleaseFlow,
    stack: Any,
    open_flow: Any,
    manifest_of: ManifestOf,
    report_of: ReportOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "_overruled", lambda *_: False)
    roll_back_a_canary_that_is_loading(flow, stack, open_flow, manifest_of, report_of)
    assert flow.state().canary is None
    assert stack.table.canary.share == 0.5


def test_a_load_that_fails_after_it_was_overruled_is_nobodys_failure(
    flow: ReleaseFlow, stack: Any, open_flow: Any, manifest_of: ManifestOf, report_of: ReportOf
) -> None:
    flow.bootstrap(manifest_of("v1"), tenants=("acme", "globex"), reason="first")
    through_the_gate(flow, "v2", "v1", manifest_of, report_of)
    slow = SlowFleet(stack, "v2")
    with meanwhile(lambda: open_flow(fleet=slow).start_canary("v2", share=0.5)):
        assert slow.began.wait(DEADLINE_S)
        flow.roll_back("v2", reason="stop it")
        stack.down.add("inference-1")
        slow.may_end.set()
    assert stack.table.canary is None


def roll_live_back_onto_an_engine_that_is_loading(
    flow: ReleaseFlow, stack: Any, open_flow: Callable[..., ReleaseFlow], m: ManifestOf, r: ReportOf, good: CanaryCounts,
    *, wait_for: Callable[[], bool],
) -> SlowFleet:  # fmt: skip
    """v2 is live on the second engine; v3 is being loaded over v1 on the first, which is where a roll-back leads."""
    flow.bootstrap(m("v1"), tenants=("acme", "globex"), reason="first")
    through_the_gate(flow, "v2", "v1", m, r)
    flow.start_canary("v2", share=0.5)
    flow.observe("v2", good)
    flow.promote()
    through_the_gate(flow, "v3", "v2", m, r)
    slow = SlowFleet(stack, "v3")
    with meanwhile(lambda: open_flow(fleet=slow).start_canary("v3", share=0.5)):
        assert slow.began.wait(DEADLINE_S)
        with meanwhile(lambda: open_flow(fleet=slow).roll_back("v2", reason="refunds are wrong")):
            until(lambda: flow.history()[-1].type == "LiveRolledBack")
            until(wait_for)
            slow.may_end.set()
    assert stack.table.stable.version == "v1"
    return slow


def test_live_is_not_rolled_back_onto_an_engine_that_other_weights_are_about_to_enter(
    flow: ReleaseFlow, stack: Any, open_flow: Any, manifest_of: ManifestOf, report_of: ReportOf, good_counts: CanaryCounts
) -> None:  # fmt: skip
    slow = roll_live_back_onto_an_engine_that_is_loading(
        flow, stack, open_flow, manifest_of, report_of, good_counts, wait_for=lambda: True
    )
    assert slow.served_wrongly == []
    assert stack.engines == {"inference-0": "v1", "inference-1": "v2"}


def test_without_the_engines_lock_it_would_be(
    flow: ReleaseFlow, stack: Any, open_flow: Any, manifest_of: ManifestOf, report_of: ReportOf, good_counts: CanaryCounts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(effects, "lock_engine_weights", lambda *_: nullcontext())
    slow = roll_live_back_onto_an_engine_that_is_loading(
        flow, stack, open_flow, manifest_of, report_of, good_counts,
        wait_for=lambda: stack.table.stable.version == "v1",
    )  # fmt: skip
    assert slow.served_wrongly == ["v3 to the customers of v1"]
