"""`atdp demo`: five steps from a bare home to a promoted policy, and the proof that nothing was lost, leaked or misused."""

import os
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from atdp.control import read_manifest
from atdp.runtime import Home
from atdp.stack import running_stack
from order_desk.customers import Customers
from order_desk.evidence import collect
from order_desk.history import emit_history
from order_desk.intruders import intrude
from order_desk.logs import logged_episode
from order_desk.loop import Loop
from order_desk.memory import MemoryWatch
from order_desk.platform import Platform, open_platform
from order_desk.report import write_page
from order_desk.screen import Screen
from order_desk.settings import CONSENTING, MODEL, TENANTS, WITHDRAWN, DemoSettings
from order_desk.summary import Outcome, Summary, show
from order_desk.training import warm_start


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What the demo leaves behind."""

    summary: Summary
    report_html: Path
    summary_json: Path


def fresh_home(root: Path) -> Home:
    """A home of its own for each run, below `root`."""
    return Home((root / "demo" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")).resolve())


def run_demo(home: Home, settings: DemoSettings, console: Console) -> DemoResult:
    """Run the demo in `home`, which must be new; nothing is left running, the home stays.

    Raises:
        DemoError: a step failed, and which.
        ControlError, StackError, TrainerError, LakehouseError, …: what the platform itself reports.
    """
    began = time.monotonic()
    screen = Screen(console)
    home.root.mkdir(parents=True, exist_ok=True)
    with MemoryWatch() as memory:
        screen.step(1, "Start the stack; warm-start a small model on mediocre logs")
        with running_stack(home, os.environ, screen.note):
            outcome = _drive(home, settings, screen)
            screen.step(5, "Stop the stack; summary")
    screen.end_step()
    summary = Summary.of(
        outcome,
        home=home.root,
        settings=settings,
        peak_bytes=memory.peak_bytes,
        at_peak=memory.at_peak,
        wall_seconds=time.monotonic() - began,
        step_seconds=screen.step_seconds,
    )
    summary_json, report_html = home.root / "summary.json", home.root / "report.html"
    summary.write(summary_json)
    write_page(summary, report_html)
    show(summary, console)
    console.print(f"\n{report_html}\n{summary_json}", soft_wrap=True, highlight=False)
    return DemoResult(summary=summary, report_html=report_html, summary_json=summary_json)


def _drive(home: Home, settings: DemoSettings, screen: Screen) -> Outcome:
    """Everything that needs the running stack; holds none of its clients when it returns."""
    with open_platform(home, concurrency=settings.concurrency) as platform:
        clerks, customers = Customers("log", settings.seed), Customers("desk", settings.seed)
        logged_success = _warm_start(platform, settings, screen, clerks)
        screen.step(2, "Agents serve customers of two tenants through the gateway")
        loop = Loop(platform=platform, settings=settings, screen=screen, customers=customers)
        before = loop.measure(
            "before", f"{settings.measured_tasks} fresh tasks before any reinforcement"
        )
        refused = intrude(
            platform.kafka,
            api_key=platform.tenants[CONSENTING].api_key,
            tenant=CONSENTING,
            other_tenant=WITHDRAWN,
        )
        platform.tally.add(CONSENTING, "raw topic", refused)
        screen.note(
            f"{refused} records that must not pass were written past every client, straight into the raw topic"
        )
        screen.step(3, "Rounds: train, evaluate, canary, promote")
        loop.run_rounds()
        after = loop.measure(
            "after", f"{settings.measured_tasks} fresh tasks with what is live now"
        )
        screen.step(4, "Count everything again, independently; search for raw values")
        evidence = collect(platform, loop, [*clerks.planted, *customers.planted], screen)
        return Outcome(
            logged_success=logged_success,
            before=before,
            after=after,
            traffic=dict(loop.traffic),
            candidates=tuple(loop.candidates),
            failures=tuple(loop.failures),
            evidence=evidence,
        )


def _warm_start(
    platform: Platform, settings: DemoSettings, screen: Screen, clerks: Customers
) -> float:
    """Emit the logs, learn to speak from them, put the first version live; returns the logs' success rate."""
    rng = random.Random(f"clerks/{settings.seed}")  # noqa: S311 (a simulation)
    episodes = [
        (
            CONSENTING if rng.random() < settings.acme_share else WITHDRAWN,
            logged_episode(order, rng),
        )
        for order in clerks.orders(settings.logged_episodes)
    ]
    with screen.bar("logged conversations, emitted with the SDK", len(episodes)) as advance:
        emit_history(platform.tenants, episodes, platform.tally, lambda: advance(1))
    platform.wait_until_landed()
    success = sum(episode.reward for _, episode in episodes) / len(episodes)
    screen.note(f"{len(episodes)} conversations landed; {success:.1%} of them ended right")
    with screen.bar_to("supervised steps", settings.sft_steps) as on_step:
        result = warm_start(platform.home, settings, on_step)
    first = result.published.version
    platform.flow.bootstrap(
        read_manifest(platform.home.weights, MODEL, first),
        tenants=TENANTS,
        reason="first version, learnt from the logs",
    )
    screen.note(
        f"{MODEL} {first} learnt from {result.trajectories_used} conversations and is live; kept back: {dict(result.refused)}"
    )
    return success
