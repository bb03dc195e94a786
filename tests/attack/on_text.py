"""Attacks by the text of an agent: on terminals and spreadsheets that show it."""

import csv
import io
import os
import subprocess
import sys

from atdp.schemas import Agent

from .senders import event_of, rows_behind, send, signed
from .target import Target

TITLE = "\x1b]0;owned\x07"
FORMULA = "=cmd|' /C calc'!A0"


def name_an_agent(target: Target) -> str | None:
    """Send an escape sequence as the name of an agent."""
    record = signed(event_of(agent=Agent(id=f"clerk{TITLE}")), target.agent)
    send(target, record)
    rows = rows_behind(target, [record], target.agent)
    return f"{rows} rows landed" if rows else None


def say_to_a_terminal(target: Target) -> str | None:
    """Send an escape sequence in a message, which `atdp sql` shows."""
    shown = _sql(target, f"SELECT '{TITLE}' AS text, chr(155) || '2J' AS more")
    return "the escape sequence reaches the terminal" if {"\x1b", "\x9b"} & {*shown} else None


def say_to_a_spreadsheet(target: Target) -> str | None:
    """Send a formula, which `atdp sql --csv-safe` prints."""
    statement = "SELECT '{}' AS text".format(FORMULA.replace("'", "''"))
    cells = next(csv.DictReader(io.StringIO(_sql(target, statement, "--csv-safe"))))
    return "a cell begins with '='" if cells["text"].startswith("=") else None


def _sql(target: Target, statement: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "atdp.stack.cli", "sql", *options, statement],
        env={**os.environ, "ATDP_HOME": str(target.home.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


ATTACKS = (name_an_agent, say_to_a_terminal, say_to_a_spreadsheet)
