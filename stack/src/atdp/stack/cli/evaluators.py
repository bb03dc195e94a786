"""`atdp evaluators`: judges and checks, what waits for them, and how far they agree with people."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_record,
    print_rows,
)
from atdp.stack.cli.verb_groups import make_group

if TYPE_CHECKING:
    from atdp.rewards import AgreementEstimate

Tenant = Annotated[str | None, typer.Option(help="Only this tenant's (default: every tenant's).")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs `evaluators …` to the `atdp` command."""
    group = make_group("evaluators", "Judges and checks of finished trajectories.")
    for verb in (check, status, retry, agreement):
        group.command()(verb)
    app.add_typer(group)


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Evaluators files (default: all of the home).", dir_okay=False
        ),
    ] = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Check evaluators files; an error names line and column. No judge is called.

    Exit code 1 when a file is wrong.

    \b
    Example:
      atdp evaluators check evaluators/acme.yaml
    """
    from atdp.rewards import evaluators_folder, read_evaluators

    chosen = files or sorted(evaluators_folder(existing_home()).glob("*.yaml"))
    rows = [
        {"file": str(file), "evaluator": each.name, "identity": each.identity, "by": each.annotator}
        for file in chosen
        for each in read_evaluators(file, tenant=file.stem)
    ]
    columns = ["file", "evaluator", "identity", "by"]
    print_rows(rows, columns, choose_format(form, as_json) or Format.TABLE)


def status(form: TableFormatOption = Format.TABLE, as_json: JsonOption = False) -> None:
    r"""Show what is pending, parked and why, emitted, and spent today.

    \b
    Example:
      atdp evaluators status --format json
    """
    from atdp.rewards import EvaluatorStatus, read_status

    rows = [asdict(row) for row in read_status(existing_home())]
    columns = list(EvaluatorStatus.__dataclass_fields__)
    print_rows(rows, columns, choose_format(form, as_json) or Format.TABLE)


def retry(
    tenant: Tenant = None,
    evaluator: Annotated[
        str | None, typer.Option(help="Only those of this evaluator (default: all).")
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Try parked trajectories again now, for example after a judge was repaired.

    \b
    Example:
      atdp evaluators retry --tenant acme
    """
    from atdp.rewards import EvaluationJournal, journal_file

    journal = EvaluationJournal(journal_file(existing_home()))
    try:
        number = journal.retry_parked(tenant, evaluator)
    finally:
        journal.close()
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(f"{number} parked evaluations are tried again")
    else:
        print_record({"retried": number}, form)


def agreement(
    tenant: Tenant = None, form: TableFormatOption = Format.TABLE, as_json: JsonOption = False
) -> None:
    r"""Compare the scores of each evaluator version with people's ratings.

    `n` trajectories have both. The difference is score minus rating, both from 0 to 1. `low` and
    `high` bound the 95 % bootstrap interval, from 10 trajectories on.

    \b
    Example:
      atdp evaluators agreement --tenant acme
    """
    from atdp.lakehouse import open_lake
    from atdp.rewards import RulesStore, read_agreement

    home = existing_home()
    rows: list[dict[str, object]] = [
        {
            "tenant": name,
            "evaluator": found.evaluator,
            "version": found.version,
            "judged": found.judged,
            "n": found.n,
            **_columns("difference", found.mean_difference),
            **_columns("spearman", found.spearman),
            **_columns("kappa", found.kappa),
        }
        for name, of_tenant in read_agreement(
            open_lake(home), RulesStore(home.reward_rules), tenant
        )
        for found in of_tenant
    ]
    numbers = [
        f"{name}{end}"
        for name in ("difference", "spearman", "kappa")
        for end in ("", "_low", "_high")
    ]
    columns = ["tenant", "evaluator", "version", "judged", "n", *numbers]
    print_rows(rows, columns, choose_format(form, as_json) or Format.TABLE)


def _columns(name: str, estimate: "AgreementEstimate") -> dict[str, object]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
