"""`atdp policy`: the verbs of those who answer for the policies."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack.cli import policy_decisions, policy_files, policy_preview, policy_reading
from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_rows,
)
from atdp.stack.cli.terminal import rewrite_line
from atdp.stack.cli.verb_groups import make_group

_COLUMNS = (
    "detector",
    "measure",
    "entity",
    "labelled",
    "predicted",
    "precision",
    "recall",
    "f2",
)
_PROGRESS_EVERY = 100


def add_to(app: typer.Typer) -> None:
    """Add the verbs `policy …` to the `atdp` command."""
    group = make_group("policy", "Policies: write, test, preview, approve, activate, roll back.")
    for verb in (
        policy_files.init,
        policy_files.lint,
        policy_files.diff,
        policy_preview.preview,
        evaluate,
        policy_decisions.draft,
        policy_decisions.approve,
        policy_decisions.activate,
        policy_decisions.rollback,
        policy_decisions.settings,
        policy_reading.show,
        policy_reading.history,
    ):
        group.command()(verb)
    group.command("test")(policy_files.run_tests)
    group.command("list")(policy_reading.list_policies)
    app.add_typer(group)


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Labelled texts in the form of presidio-research."),
    ],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="Policy file (default: the policy of a new home)."),
    ] = None,
    presidio: Annotated[
        bool, typer.Option(help="Measure plain Presidio beside the policy.")
    ] = True,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Measure what a policy finds in labelled texts: precision, recall and F2.

    FILE is a JSON list, or JSON Lines, of texts with spans: `full_text`, `spans` with
    `entity_type`, `start_position`, `end_position`. The measure `span` ignores labels and counts a
    span as found from an IoU of 0.75 on, `same entity` compares labels too, `character` counts
    letters and digits. F2 weighs recall twice.

    \b
    Example:
      atdp policy evaluate labelled.json
      atdp policy evaluate labelled.json --policy policies/acme.yaml --format json
    """
    from atdp.governance import evaluate_policy, read_labelled_texts, read_policy

    texts = read_labelled_texts(file)
    document = read_policy(policy)
    rows = [
        asdict(row)
        for row in evaluate_policy(document, texts, presidio=presidio, progress=_show(len(texts)))
    ]
    print_rows(rows, _COLUMNS, choose_format(form, as_json) or Format.TABLE)


def _show(total: int) -> Callable[[str, int], None]:
    """Return a function that shows the progress of a detector on one line of a terminal."""

    def show(detector: str, done: int) -> None:
        if sys.stderr.isatty() and (done % _PROGRESS_EVERY == 0 or done == total):
            rewrite_line(f"{detector}: {done} of {total} texts", ends=done == total)

    return show
