"""`atdp rewards`: rules files, and the reasons of rewards."""

from pathlib import Path
from typing import Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_rows,
)
from atdp.stack.cli.verb_groups import make_group

_SHOWN = (
    "tenant_id",
    "trajectory_id",
    "attempt",
    "target_kind",
    "target_step",
    "dimension",
    "value",
    "source_name",
    "rule",
    "rules_version",
    "evidence",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs `rewards …` to the `atdp` command."""
    group = make_group("rewards", "Rewards by rule: check rules files, show why a reward is.")
    group.command()(check)
    group.command()(show)
    app.add_typer(group)


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Rules files (default: all of the home).", dir_okay=False
        ),
    ] = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Check rules files; an error names line and column. Nothing is changed.

    Exit code 1 when a file is wrong. A running stack takes a changed file within seconds, and
    derives all rewards of the file's tenants again.

    \b
    Example:
      atdp rewards check rewards/acme.yaml
    """
    from atdp.rewards import RulesError, parse_rules

    chosen = files or sorted(existing_home().reward_rules.glob("*.yaml"))
    rows = []
    for file in chosen:
        try:
            rules = parse_rules(file.read_text(encoding="utf-8"), where=str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise RulesError(f"cannot read {file}: {error}") from error
        rows.append(
            {"file": str(file), "identity": rules.identity, "rules": [r.name for r in rules.rules]}
        )
    print_rows(rows, ["file", "identity", "rules"], choose_format(form, as_json) or Format.TABLE)


def show(
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY")],
    tenant: Annotated[
        str | None, typer.Option(help="Its tenant (default: every tenant's trajectory).")
    ] = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show the rewards of a trajectory that count, with rule, rules file and evidence.

    \b
    Example:
      atdp rewards show 4f7c… --format json
    """
    from atdp.lakehouse import connect, open_lake, sql_literal

    with connect(lake=open_lake(existing_home()), tenant=tenant) as connection:
        # S608: names of columns, and a literal that is quoted.
        query = (
            f"SELECT {', '.join(_SHOWN)} FROM rewards_effective "  # noqa: S608
            f"WHERE trajectory_id = {sql_literal(trajectory)} ORDER BY ALL"
        )
        rows = [dict(zip(_SHOWN, row, strict=True)) for row in connection.sql(query).rows()]
    print_rows(rows, list(_SHOWN), choose_format(form, as_json) or Format.TABLE)
