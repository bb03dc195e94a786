"""`atdp demo-online`: an agent that changed only its base_url gets better while people use it.

Users arrive without a pause, each with a task of its own. The agent names no session, no task and
no header; one session in five is rated. Beside the traffic `atdp learn` trains, evaluates, tries
and promotes versions, and takes back one that was released by mistake. What is true about an answer
is known to the demo alone, and used for its measurements only.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from atdp.runtime import Home, write_durably
from atdp.stack import FIRST_POLICY, running_stack
from order_desk.demo_console import DemoConsole
from order_desk.memory_watch import MemoryWatch
from order_desk.online_settings import PRICES, REWARD_RULES, OnlineDemoSettings
from order_desk.settings import CONSENTING

if TYPE_CHECKING:
    from order_desk.online_summary import OnlineOutcome, OnlineSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineResult:
    """The summary of a run and the files that hold it."""

    summary: "OnlineSummary"
    report_html: Path
    summary_json: Path


def run_online_demo(home: Home, settings: OnlineDemoSettings, console: Console) -> OnlineResult:
    """Run the online demo in `home`, which must be new; nothing is left running, the home stays.

    Raises:
        DemoError: a step failed.
        ControlError, StackError, TrainerError, LakehouseError, …: an error of the platform itself.
    """
    began_s = time.monotonic()
    demo_console = DemoConsole(console)
    home.root.mkdir(parents=True, exist_ok=True)
    write_durably(home.reward_rules / f"{CONSENTING}.yaml", REWARD_RULES)
    write_durably(home.prices_file, PRICES)
    with MemoryWatch() as memory, ThreadPoolExecutor(max_workers=1) as beside:
        demo_console.step(1, "Start the stack; warm-start a small model on mediocre logs")
        environment = {**os.environ, **settings.gateway_environment, FIRST_POLICY: "demo"}
        steps = beside.submit(_import_steps)
        with running_stack(home, environment, demo_console.note):
            outcome = steps.result()(home, settings, demo_console, began_s)
    demo_console.end_step()

    from order_desk.online_report import write_online_page
    from order_desk.online_summary import OnlineSummary

    summary = OnlineSummary.of(
        outcome,
        home=home.root,
        settings=settings,
        at_peak=memory.at_peak,
        wall_seconds=time.monotonic() - began_s,
        step_seconds=demo_console.step_seconds,
    )
    summary_json, report_html = home.root / "summary.json", home.root / "report.html"
    summary.write(summary_json)
    write_online_page(summary, report_html)
    summary.print(console)
    console.print(f"\n{report_html}\n{summary_json}", soft_wrap=True, highlight=False)
    return OnlineResult(summary=summary, report_html=report_html, summary_json=summary_json)


def _import_steps() -> "Callable[[Home, OnlineDemoSettings, DemoConsole, float], OnlineOutcome]":
    """Import what takes seconds to import, while the stack starts."""
    from order_desk.online_steps import serve_and_learn

    return serve_and_learn
