"""`atdp demo`: five steps from an empty home to a promoted weight version, with evidence.

The evidence shows that no event was lost, no raw value leaked, and no trajectory was used without
consent.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from atdp.runtime import Home
from atdp.stack import FIRST_POLICY, running_stack
from order_desk.customers import CustomerStream
from order_desk.demo_console import DemoConsole
from order_desk.demo_platform import open_platform
from order_desk.evidence import collect_evidence
from order_desk.first_version import put_first_version_live
from order_desk.invalid_records import write_invalid_records
from order_desk.learning_loop import LearningLoop
from order_desk.memory_watch import MemoryWatch
from order_desk.report import write_page
from order_desk.settings import CONSENTING, WITHDRAWN, DemoSettings
from order_desk.summary import DemoOutcome, Summary
from order_desk.summary_text import print_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The summary of a demo and the files that hold it."""

    summary: Summary
    report_html: Path
    summary_json: Path


def run_demo(home: Home, settings: DemoSettings, console: Console) -> DemoResult:
    """Run the demo in `home`, which must be new; nothing is left running, the home stays.

    Raises:
        DemoError: a step failed.
        ControlError, StackError, TrainerError, LakehouseError, …: an error of the platform itself.
    """
    began = time.monotonic()
    demo_console = DemoConsole(console)
    home.root.mkdir(parents=True, exist_ok=True)
    with MemoryWatch() as memory:
        demo_console.step(1, "Start the stack; warm-start a small model on mediocre logs")
        with running_stack(home, {**os.environ, FIRST_POLICY: "demo"}, demo_console.note):
            outcome = _drive(home, settings, demo_console)
            demo_console.step(5, "Stop the stack; summary")
    demo_console.end_step()
    summary = Summary.of(
        outcome,
        home=home.root,
        settings=settings,
        peak_bytes=memory.peak_bytes,
        at_peak=memory.at_peak,
        wall_seconds=time.monotonic() - began,
        step_seconds=demo_console.step_seconds,
    )
    summary_json, report_html = home.root / "summary.json", home.root / "report.html"
    summary.write(summary_json)
    write_page(summary, report_html)
    print_summary(summary, console)
    console.print(f"\n{report_html}\n{summary_json}", soft_wrap=True, highlight=False)
    return DemoResult(summary=summary, report_html=report_html, summary_json=summary_json)


def _drive(home: Home, settings: DemoSettings, demo_console: DemoConsole) -> DemoOutcome:
    """Run the steps that need the running stack; close its clients before returning."""
    with open_platform(home, concurrency=settings.concurrency) as platform:
        clerks, customers = (
            CustomerStream("log", settings.seed),
            CustomerStream("desk", settings.seed),
        )
        shares = {CONSENTING: settings.acme_share, WITHDRAWN: 1 - settings.acme_share}
        logged_success = put_first_version_live(platform, settings, demo_console, clerks, shares)
        demo_console.step(2, "Agents serve customers of two tenants through the gateway")
        loop = LearningLoop(
            platform=platform, settings=settings, console=demo_console, customers=customers
        )
        before = loop.measure(
            "before", f"{settings.measured_tasks} fresh tasks before any reinforcement"
        )
        invalid = write_invalid_records(
            platform.kafka,
            api_key=platform.tenants[CONSENTING].api_key,
            tenant=CONSENTING,
            other_tenant=WITHDRAWN,
        )
        platform.emitted.add(CONSENTING, "raw topic", invalid)
        demo_console.note(
            f"{invalid} invalid records were written directly into the raw topic, past every client"
        )
        demo_console.step(3, "Rounds: train, evaluate, canary, promote")
        loop.run_rounds()
        after = loop.measure(
            "after", f"{settings.measured_tasks} fresh tasks with what is live now"
        )
        demo_console.step(4, "Count everything again, independently; search for raw values")
        planted = [*clerks.planted, *customers.planted]
        evidence = collect_evidence(platform, loop, planted, demo_console)
        return DemoOutcome(
            logged_success=logged_success,
            before=before,
            after=after,
            traffic=dict(loop.traffic),
            candidates=tuple(loop.candidates),
            failures=tuple(loop.failures),
            evidence=evidence,
        )
