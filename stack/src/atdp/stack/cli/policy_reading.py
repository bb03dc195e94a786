"""`atdp policy list`, `show` and `history`: what the register says about policies."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import typer

from atdp.stack.cli.callers import KeyOption
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_record,
    print_rows,
)
from atdp.stack.cli.policy_arguments import (
    IdArgument,
    IdOrVersionArgument,
    open_desk,
    split_name,
)

_POLICY_COLUMNS = (
    "id",
    "kind",
    "tenants",
    "active_version",
    "active_hash",
    "active_since",
    "last_version",
    "last_state",
)
_HASH_SHOWN: Final = 12
_DECISION_COLUMNS = ("at", "actor", "decision", "version", "hash", "refused")


def list_policies(
    key: KeyOption = None, form: TableFormatOption = Format.TABLE, as_json: JsonOption = False
) -> None:
    r"""List the policies that you may see: the active version of each, and its last draft.

    \b
    Example:
      atdp policy list --format json
    """
    with open_desk(key) as opened:
        rows = [asdict(each) for each in opened.desk.list(opened.caller)]
    _print(rows, _POLICY_COLUMNS, choose_format(form, as_json) or Format.TABLE)


def show(
    policy: IdOrVersionArgument,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show a version of a policy: its text, and who decided about it.

    Without a version it is the active one, else the last draft. The text goes to standard output,
    so it can be written to a file.

    \b
    Example:
      atdp policy show acme > acme.yaml
      atdp policy show acme@2 --format json
    """
    with open_desk(key) as opened:
        details = opened.details_of(policy, last=False)
    form = choose_format(form, as_json)
    if form is not None:
        print_record(asdict(details), form)
        return
    approved = ", ".join(details.approved_by) or "nobody"
    typer.echo(
        f"{details.id}@{details.version} is {details.state}; hash {details.hash[:12]}; "
        f"drafted by {details.drafted_by}, approved by {approved}",
        err=True,
    )
    typer.echo(details.text, nl=not details.text.endswith("\n"))


def history(
    policy: IdArgument,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show the decisions about a policy in their order, with those that were refused and why.

    \b
    Example:
      atdp policy history acme
    """
    policy_id, _ = split_name(policy)
    with open_desk(key) as opened:
        rows = [asdict(each) for each in opened.desk.history(opened.caller, policy_id)]
    _print(rows, _DECISION_COLUMNS, choose_format(form, as_json) or Format.TABLE)


def _print(rows: Sequence[dict[str, Any]], columns: Sequence[str], form: Format) -> None:
    """Print rows; a table has the beginning of each hash, which is enough to name content."""
    if form is Format.TABLE:
        for row in rows:
            for name in ("hash", "active_hash"):
                row[name] = (row.get(name) or "")[:_HASH_SHOWN]
    print_rows(rows, columns, form)
